"""The recorder over real HTTP on its real socket, with the agent kit and the `openai` package as clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from pydantic import SecretStr

from arena.agent_kit.client import Llm, ModelError, Problem, ToolError, Tools, connect
from arena.recorder.budget import Budget
from arena.recorder.llm import derived_seed
from arena.recorder.server import Recorder
from arena.recorder.upstream import Upstream
from storage import events
from storage.trajectory import counts
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import KEY, Puppet, native_call, say, tell

in_thread = asyncio.to_thread


@asynccontextmanager
async def serving(
    folder: Path, upstream: Upstream, budget: Budget | None = None
) -> AsyncIterator[tuple[Recorder, str]]:
    recorder = Recorder("e1", ledger_problem().problem, Ledger(), upstream, budget or Budget(), 7)
    async with recorder.serving(folder / "s"):
        yield recorder, str(folder / "s")
    events.verify(recorder.log.events)


async def kit(path: str) -> tuple[Problem, Tools, Llm]:
    problem, tools, llm, _ = await in_thread(connect, path)
    return problem, tools, llm


def sdk(path: str) -> openai.AsyncOpenAI:
    client = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path))
    return openai.AsyncOpenAI(base_url="http://arena/v1", api_key="not-needed", http_client=client)


def http_client(path: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path), base_url="http://arena")


def bodies(recorder: Recorder, kind: str) -> list[dict[str, Any]]:
    return [event.body for event in recorder.log.events if event.kind == kind]


async def test_the_agent_sees_the_problem_and_tools_and_no_answer(
    short_folder: Path, upstream: Upstream
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        problem, tools, _ = await kit(path)
        assert problem.query == problem["query"] == "What is 40 + 2?"
        assert [spec["function"]["name"] for spec in tools.specs][:3] == ["add", "answer", "finish"]
        assert not hasattr(problem, "answer")
        with pytest.raises(AttributeError, match="there is: add, answer, finish"):
            _ = tools.multiply
    assert "42" not in json.dumps(bodies(recorder, "started"))


async def test_a_plain_chat_is_answered_and_recorded_with_its_context(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        answer = await client.chat.completions.create(model="default", messages=say("hello"), temperature=9)
    assert answer.choices[0].message.content == "hello"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 15
    (call,) = bodies(recorder, "model_call")
    stored = events.blobs(recorder.log.events)
    assert [stored[name] for name in call["messages"]] == say("hello")
    assert call["params"] == {"temperature": 2.0, "seed": derived_seed(7, 1), "max_tokens": 8192}
    counted = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert call["response"]["usage"] == {**counted, "estimated": False}
    sent = puppet.requests[0]
    assert (sent["model"], sent["seed"], sent["temperature"]) == ("puppet-1", derived_seed(7, 1), 2.0)


async def test_a_streamed_chat_carries_text_tool_calls_and_usage(
    short_folder: Path, upstream: Upstream
) -> None:
    message = {
        "content": "well",
        "reasoning_content": "hm",
        "tool_calls": [native_call("add", '{"amount":1}')],
    }
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        stream = await client.chat.completions.create(
            model="puppet-2",
            messages=tell(message=message),
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "well"
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [(c.function.name, c.function.arguments) for c in calls if c.function] == [("add", '{"amount":1}')]
    assert chunks[-1].usage is not None
    (call,) = bodies(recorder, "model_call")
    assert call["streamed"]
    assert call["model"] == "puppet-2"
    assert call["response"]["emitted"] == [{"id": "c1", "name": "add", "arguments": {"amount": 1}}]


async def test_models_are_listed_and_others_refused(short_folder: Path, upstream: Upstream) -> None:
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        listed = [model.id async for model in client.models.list()]
        with pytest.raises(openai.NotFoundError, match="puppet-1, puppet-2"):
            await client.chat.completions.create(model="gpt-9", messages=say("x"))
    assert listed == ["default", "puppet-1", "puppet-2"]
    assert bodies(recorder, "model_call")[0]["error"]["kind"] == "agent"


async def test_an_assistant_message_can_be_sent_back_as_the_sdk_dumps_it(
    short_folder: Path, upstream: Upstream
) -> None:
    message = {"content": None, "tool_calls": [native_call("finish", "{}")]}
    async with serving(short_folder, upstream) as (_, path), sdk(path) as client:
        first = await client.chat.completions.create(model="default", messages=tell(message=message))
        history = [
            first.choices[0].message.model_dump(),
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ]
        second = await client.chat.completions.create(model="default", messages=[*history, *say("bye")])  # type: ignore[list-item]
    assert second.choices[0].message.content == "bye"


async def test_unknown_parameters_are_refused_by_name(short_folder: Path, upstream: Upstream) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match="logit_bias is not supported"):
            await in_thread(llm.chat, say("x"), logit_bias={"1": 1})
        with pytest.raises(ModelError, match="chat_template"):
            await in_thread(llm.chat, say("x"), chat_template_kwargs={"chat_template": "{{ evil }}"})
        with pytest.raises(ModelError, match=r"messages\.0\.role"):
            await in_thread(llm.chat, [{"role": "wizard", "content": "x"}])
    assert len(bodies(recorder, "refused")) == 3


async def test_tool_calls_return_content_and_errors_a_model_can_act_on(
    short_folder: Path, upstream: Upstream
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, tools, _ = await kit(path)
        assert await in_thread(tools.add, amount="40") == {"done": "add", "amount": 40}
        with pytest.raises(ToolError, match="cannot understand"):
            await in_thread(tools.add, sum=1)
        with pytest.raises(ToolError, match="the tools are add, answer, finish"):
            await in_thread(tools.call, "no such/tool?", [1])
    recorded = bodies(recorder, "tool_call")
    assert [call["canonical"] for call in recorded] == [{"amount": 40}, None, None]
    assert recorded[0]["arguments"] == {"amount": "40"}
    assert recorded[2]["name"] == "no such/tool?"


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"amount": NaN}', b'{"amount":1,"amount":2}', b"[" * 5000, b'"\\ud800"', b"1e999", b"\xff"],
)
async def test_hostile_json_is_refused_and_the_recorder_lives_on(
    short_folder: Path, upstream: Upstream, body: bytes
) -> None:
    async with (
        serving(short_folder, upstream) as (recorder, path),
        http_client(path) as http,
    ):
        answers = [
            await http.post(route, content=body) for route in ("/tools/add", "/v1/chat/completions", "/claim")
        ]
        healthy = await http.post("/tools/add", content=b'{"amount": 1}')
    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert healthy.json()["error"] is None
    assert recorder.fault is None
    assert len(bodies(recorder, "refused")) == 3


async def test_everything_is_refused_after_the_final_call(short_folder: Path, upstream: Upstream) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, tools, llm = await kit(path)
        assert not recorder.finished.is_set()
        await in_thread(tools.finish)
        assert recorder.finished.is_set()
        with pytest.raises(ToolError, match="episode is over"):
            await in_thread(tools.answer, total=42)
        with pytest.raises(ModelError, match="episode is over"):
            await in_thread(llm.chat, say("x"))
    assert [call["name"] for call in bodies(recorder, "tool_call")] == ["finish"]
    assert bodies(recorder, "model_call") == []


async def test_a_spent_budget_is_named(short_folder: Path, upstream: Upstream) -> None:
    budget = Budget(model_calls=1, tool_calls=1)
    async with serving(short_folder, upstream, budget) as (recorder, path), sdk(path) as client:
        await client.chat.completions.create(model="default", messages=say("x"))
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="default", messages=say("x"))
        _, tools, _ = await kit(path)
        await in_thread(tools.add, amount=1)
        with pytest.raises(ToolError, match="1 tool calls"):
            await in_thread(tools.add, amount=1)
    assert (caught.value.code, caught.value.param) == ("budget_spent", "model_calls")
    assert [call.get("error", {}).get("kind") for call in bodies(recorder, "model_call")] == [None, "budget"]
    assert recorder.exhausted == {"model_calls", "tool_calls"}


async def test_completion_length_is_clamped_to_what_is_left(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    budget = Budget(completion_tokens=8, completion_tokens_per_call=6)
    async with serving(short_folder, upstream, budget) as (_, path):
        _, _, llm = await kit(path)
        await in_thread(llm.chat, say("x"), max_tokens=100)
        await in_thread(llm.chat, say("x"), max_tokens=100)
        with pytest.raises(ModelError, match="8 completion tokens"):
            await in_thread(llm.chat, say("x"))
    assert [request["max_tokens"] for request in puppet.requests] == [6, 3]


async def test_a_flood_of_refusals_is_counted_rather_than_logged(
    short_folder: Path, upstream: Upstream
) -> None:
    budget = Budget(logged_refusals=3)
    async with serving(short_folder, upstream, budget) as (recorder, path), http_client(path) as http:
        for _ in range(10):
            await http.get("/secret")
    recorder.close("exit", "")
    assert len(bodies(recorder, "refused")) == 3
    assert bodies(recorder, "ended")[0]["unlogged_refusals"] == 7


async def test_a_provider_that_recovers_within_its_retries_is_no_fault(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        message = await in_thread(llm.chat, say("at last", fail_first=2))
    assert message["content"] == "at last"
    assert len(puppet.requests) == 3
    assert recorder.provider_fault is None


@pytest.mark.parametrize(
    "order",
    [
        {"status": 500},
        {"status": 429},
        {"status": 401},
        {"body": "<html>"},
        {"body": '{"choices": []}'},
        {"body": "[" * 5000},
    ],
)
async def test_a_call_lost_by_the_provider_is_its_fault_until_a_later_one_succeeds(
    short_folder: Path, upstream: Upstream, order: dict[str, Any]
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match="provider failed") as caught:
            await in_thread(llm.chat, tell(**order))
        assert (caught.value.status, caught.value.code) == (502, "provider")
        assert recorder.provider_fault is not None
        await in_thread(llm.chat, say("well again"))
        assert recorder.provider_fault is None
    assert bodies(recorder, "model_call")[0]["error"]["kind"] == "provider"


async def test_a_request_that_the_provider_calls_bad_is_the_agents_own(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError) as caught:
            await in_thread(llm.chat, tell(status=400))
    assert caught.value.status == 400
    assert recorder.provider_fault is None
    assert bodies(recorder, "model_call")[0]["error"]["kind"] == "agent"
    assert len(puppet.requests) == 1


async def test_a_provider_that_keeps_failing_is_not_asked_forever(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream, Budget(lost_model_calls=2)) as (_, path):
        _, _, llm = await kit(path)
        for _ in range(5):
            with pytest.raises(ModelError, match="provider failed"):
                await in_thread(llm.chat, tell(status=401))
    assert len(puppet.requests) == 2


async def test_a_call_that_the_provider_was_failing_when_the_episode_ended_is_its_fault(
    short_folder: Path, puppet: Puppet
) -> None:
    stubborn = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), retries=100, pause_s=0.01)
    async with serving(short_folder, stubborn) as (recorder, path):
        _, _, llm = await kit(path)
        asking = asyncio.create_task(in_thread(llm.chat, tell(status=503)))
        await in_thread(puppet.wait_for_requests, 2)  # the second is sent once the first has failed
    with pytest.raises(ConnectionError):
        await asking
    await stubborn.aclose()
    assert recorder.provider_fault is not None
    assert bodies(recorder, "model_call")[0]["error"]["kind"] == "provider"


async def test_the_key_reaches_the_provider_and_nothing_else(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        await client.chat.completions.create(model="default", messages=say("x"))
        for status in (400, 401, 500):
            with pytest.raises(openai.APIStatusError) as caught:
                await client.chat.completions.create(model="default", messages=tell(status=status))
            assert KEY not in caught.value.response.text
    recorder.close("exit", "")
    assert puppet.keys == {f"Bearer {KEY}"}
    assert KEY not in json.dumps([event.to_json() for event in recorder.log.events])
    assert KEY not in repr(upstream)


async def test_a_tool_call_is_emitted_once_and_scripted_thereafter(
    short_folder: Path, upstream: Upstream
) -> None:
    tagged = '<tool_call>[{"name": "answer", "parameters": {"total": "42"}}]</tool_call>'
    async with serving(short_folder, upstream) as (recorder, path):
        _, tools, llm = await kit(path)
        await in_thread(tools.add, amount=1)
        await in_thread(llm.chat, tell(message={"tool_calls": [native_call("add", '{"amount": "1"}')]}))
        await in_thread(tools.add, amount=1)
        await in_thread(tools.add, amount=1)
        await in_thread(llm.chat, say(tagged))
        await in_thread(tools.answer, total=42)
    assert (counts(recorder.log.events).model_emitted, counts(recorder.log.events).scripted) == (2, 2)


async def test_an_environment_that_breaks_ends_the_episode_as_our_fault(
    short_folder: Path, upstream: Upstream
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, tools, _ = await kit(path)
        with pytest.raises(ToolError, match="not your fault"):
            await in_thread(tools.call, "explode", {})
    assert recorder.fault is not None
    assert "the ledger burns" in recorder.fault
    assert recorder.finished.is_set()


async def test_an_environment_that_hangs_ends_the_episode_as_our_fault(
    short_folder: Path, upstream: Upstream
) -> None:
    async with serving(short_folder, upstream, Budget(tool_timeout_s=0.05)) as (recorder, path):
        _, tools, _ = await kit(path)
        with pytest.raises(ToolError, match="not your fault"):
            await in_thread(tools.call, "hang", {})
    assert recorder.fault is not None


async def test_a_claim_is_kept_apart_and_only_the_first(short_folder: Path, upstream: Upstream) -> None:
    async with (
        serving(short_folder, upstream) as (recorder, path),
        http_client(path) as http,
    ):
        assert (await http.post("/claim", json={"total": 42})).status_code == 200
        assert (await http.post("/claim", json={"total": 43})).status_code == 409
    recorder.close("exit", "")
    (ended,) = bodies(recorder, "ended")
    assert ended["claim"] == {"total": 42}


async def _raw(path: str, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(sent)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /tools/add HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{", b"408"),
        (b"POST /tools/add HTTP/1.1\r\nho", b"408"),
        (b"POST /tools/add HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000, b"413"),
        (b"\x16\x03\x01 this is not HTTP\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 100_000, b"431"),
    ],
)
async def test_half_large_and_foreign_requests_are_cut_off(
    short_folder: Path, upstream: Upstream, sent: bytes, status: bytes
) -> None:
    budget = Budget(request_timeout_s=0.2, body_bytes=1000)
    async with serving(short_folder, upstream, budget) as (_, path):
        assert status in (await _raw(path, sent)).split(b"\r\n")[0]


async def test_connections_beyond_the_cap_are_closed_and_idle_ones_time_out(
    short_folder: Path, upstream: Upstream
) -> None:
    async with serving(short_folder, upstream, Budget(connections=2, idle_timeout_s=0.5)) as (recorder, path):
        held = [await asyncio.open_unix_connection(path) for _ in range(4)]
        async with asyncio.timeout(10):
            assert [await reader.read() for reader, _ in held] == [b""] * 4
        for _, writer in held:
            writer.close()
        await kit(path)
    assert len([b for b in bodies(recorder, "refused") if b["what"] == "connection"]) == 2


async def test_requests_of_one_connection_are_served_in_turn(short_folder: Path, upstream: Upstream) -> None:
    one = b'POST /tools/add HTTP/1.1\r\nhost: a\r\ncontent-length: 13\r\n\r\n{"amount": 1}'
    last = one.replace(b"host: a", b"host: a\r\nconnection: close")
    async with serving(short_folder, upstream) as (recorder, path):
        answer = await _raw(path, one + one + last)
    assert answer.count(b"200 \r\n") + answer.count(b"200 OK") == 3
    assert len(bodies(recorder, "tool_call")) == 3


async def test_a_socket_path_that_is_too_long_is_refused(short_folder: Path, upstream: Upstream) -> None:
    with pytest.raises(ValueError, match="shorter folder"):
        async with serving(short_folder / ("x" * 100), upstream):
            pass
