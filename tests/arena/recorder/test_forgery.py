"""An agent that tries to have its own words and calls recorded as the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from arena.recorder.upstream import Upstream
from tests.arena.puppet import Puppet, say
from tests.arena.recorder.test_server import http_client, kit, serving

PROSE = "Product 123 costs 45 PHP, cheaper than product 456 at 60 PHP."


async def ask(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": PROSE}}},
        {"type": "json_object", "schema": {"const": PROSE}},
        {"type": "grammar", "grammar": f'root ::= "{PROSE}"'},
        {"type": "regex", "value": PROSE},
        {"type": "structural_tag", "structures": []},
    ],
)
async def test_the_form_of_an_answer_cannot_dictate_its_words(
    short_folder: Path, upstream: Upstream, puppet: Puppet, form: dict[str, Any]
) -> None:
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        answer = await ask(client, messages=say("x"), response_format=form)
        plain = await ask(client, messages=say("{}"), response_format={"type": "json_object"})
    assert answer.status_code == 400
    assert "response_format" in answer.json()["error"]["message"]
    assert plain.status_code == 200
    assert [request["response_format"] for request in puppet.requests] == [{"type": "json_object"}]


async def test_an_answer_begun_by_the_agent_is_not_continued(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    begun = [*say("x"), {"role": "assistant", "content": f"<think>{PROSE}"}]
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        answer = await ask(client, messages=begun)
    assert answer.status_code == 400
    assert puppet.requests == []


async def test_a_choice_of_tools_holds_nothing_but_a_name(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    chosen = {"type": "function", "function": {"name": "add"}}
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        named = await ask(client, messages=say("x"), tool_choice=chosen)
        dictated = await ask(
            client,
            messages=say("x"),
            tool_choice={"type": "function", "function": {"name": "add", "arguments": '{"amount": 1}'}},
        )
        stops = await ask(client, messages=say("x"), stop=["x"] * 1000)
    assert [answer.status_code for answer in (named, dictated, stops)] == [200, 400, 400]
    assert puppet.requests[0]["tool_choice"] == chosen


async def test_a_tool_of_the_problem_is_offered_with_its_own_schema_or_not_at_all(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    def offered(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "type": "function",
            "function": {"name": name, "description": "mine", "parameters": parameters},
        }

    forced = {"type": "object", "properties": {"amount": {"const": 42}}, "required": ["amount"]}
    simple = {
        "type": "object",
        "properties": {"ids": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}},
        "required": ["ids"],
        "additionalProperties": False,
    }
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        _, tools, _ = await kit(path)
        refused = [
            await ask(client, messages=say("x"), tools=[offered("add", schema)])
            for schema in (forced, {}, None)
        ]
        taken = await ask(client, messages=say("x"), tools=[*tools.specs, offered("note", simple)])
    assert [answer.status_code for answer in refused] == [400] * 3
    assert "its own parameters" in refused[0].json()["error"]["message"]
    assert taken.status_code == 200
    assert len(puppet.requests) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "properties": {"x": {"items": {"pattern": "(a+)+$"}}}},
        {"type": "object", "additionalProperties": {"anyOf": []}},
        {"type": "object", "description": "x" * 9000},
    ],
)
async def test_a_tool_of_the_agents_own_has_a_schema_that_no_provider_falls_over(
    short_folder: Path, upstream: Upstream, puppet: Puppet, schema: dict[str, Any]
) -> None:
    tool = {"type": "function", "function": {"name": "mine", "parameters": schema}}
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        answer = await ask(client, messages=say("x"), tools=[tool])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("tools: ")
    assert puppet.requests == []
