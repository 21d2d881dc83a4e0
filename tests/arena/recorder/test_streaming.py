"""Streams: passed on as they come, recorded as the whole that they make, whatever either side does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from arena.recorder.budget import Budget
from arena.recorder.llm import CUT
from arena.recorder.upstream import Upstream
from storage import events
from storage.trajectory import counts
from tests.arena.puppet import Puppet, native_call, say, tell
from tests.arena.recorder.test_server import bodies, http_client, in_thread, kit, sdk, serving

PIECES = [{"role": "assistant", "reasoning_content": "hm"}, {"content": "one "}, {"content": "two"}]


def streamed(**order: Any) -> dict[str, Any]:
    return {"messages": tell(**order), "stream": True}


async def test_text_reaches_the_agent_before_the_model_has_finished(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        stream = await client.chat.completions.create(
            model="default", messages=tell(pieces=PIECES, wait=True), stream=True
        )
        first = await anext(aiter(stream))
        assert first.choices[0].delta.model_dump()["reasoning_content"] == "hm"
        assert bodies(recorder, "model_call") == []  # the model waits, and so does the record
        puppet.go_on.set()
        rest = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(rest) == "one two"
    (call,) = bodies(recorder, "model_call")
    assert call["response"]["message"] == {
        "role": "assistant",
        "content": "one two",
        "reasoning_content": "hm",
    }
    assert call["response"]["usage"]["completion_tokens"] == 5
    assert call["response"]["provider"] == {"id": "x", "model": "puppet-1-2026"}
    assert puppet.requests[0]["stream_options"] == {"include_usage": True}


async def test_calls_in_pieces_are_put_together_recorded_and_then_given(
    short_folder: Path, upstream: Upstream
) -> None:
    pieces = [
        {"content": "well"},
        {"tool_calls": [{"index": 0, **native_call("add", '{"am')}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'ount": 1}'}}]},
        {"tool_calls": [{"index": 1, **native_call("finish", "{}", "c2")}]},
    ]
    async with serving(short_folder, upstream) as (recorder, path):
        async with sdk(path) as client:
            stream = await client.chat.completions.create(
                model="default", messages=tell(pieces=pieces), stream=True
            )
            async for chunk in stream:
                for call in chunk.choices[0].delta.tool_calls or ():
                    assert bodies(recorder, "model_call"), "it is recorded before it is given"
                    assert call.function is not None
                    assert call.function.name in ("add", "finish")
        _, tools, _ = await kit(path)
        await in_thread(tools.add, amount=1)
        await in_thread(tools.finish)
    (call_body,) = bodies(recorder, "model_call")
    assert [call["arguments"] for call in call_body["response"]["emitted"]] == [{"amount": 1}, {}]
    assert counts(recorder.log.events).model_emitted == 2


async def test_an_agent_that_hangs_up_pays_for_the_whole_answer_and_it_is_recorded(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    budget = Budget(concurrent_requests=1)
    async with serving(short_folder, upstream, budget) as (recorder, path), http_client(path) as http:
        body = streamed(pieces=PIECES, wait=True)
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            await anext(response.aiter_bytes())
        puppet.go_on.set()
        await http.post("/v1/chat/completions", json={"messages": say("the first is over")})
    call, _ = bodies(recorder, "model_call")
    assert call["response"]["message"]["content"] == "one two"
    assert recorder.provider_fault is None
    recorder.close("exit", "")
    assert bodies(recorder, "ended")[0]["spent"]["completion_tokens"] == 10


async def test_what_was_read_of_an_answer_that_the_episodes_end_cut_off_is_recorded(
    short_folder: Path, upstream: Upstream
) -> None:
    async with (
        serving(short_folder, upstream) as (recorder, path),
        http_client(path) as http,
        http.stream("POST", "/v1/chat/completions", json=streamed(pieces=PIECES, wait=True)) as response,
    ):
        await anext(response.aiter_bytes())
        _, tools, _ = await kit(path)
        await in_thread(tools.finish)
    (call,) = bodies(recorder, "model_call")
    assert call["response"]["message"]["reasoning_content"] == "hm"
    assert call["response"]["finish_reason"] == CUT
    assert call["response"]["usage"]["estimated"]
    assert recorder.provider_fault is None


async def test_a_provider_that_breaks_off_a_stream_is_at_fault_and_what_it_said_is_kept(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path), sdk(path) as client:
        stream = await client.chat.completions.create(
            model="default", messages=tell(pieces=PIECES, cut=True), stream=True
        )
        said: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                said.append(chunk.choices[0].delta.content or "")

        with pytest.raises(openai.APIError, match="provider failed"):
            await read()
    assert "".join(said) == "one two"
    (call,) = bodies(recorder, "model_call")
    assert call["error"]["kind"] == "provider"
    assert call["error"]["said"]["content"] == "one two"
    assert recorder.provider_fault is not None
    assert len(puppet.requests) == 1, "half an answer cannot be asked for again"


async def test_a_stream_that_breaks_off_before_it_said_anything_is_asked_for_again(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path), http_client(path) as http:
        answer = await http.post("/v1/chat/completions", json=streamed(pieces=[], cut=True))
    assert answer.status_code == 502
    assert len(puppet.requests) == 1 + upstream.retries
    assert recorder.provider_fault is not None


@pytest.mark.parametrize("status", [429, 500])
async def test_an_error_before_the_first_piece_has_its_status(
    short_folder: Path, upstream: Upstream, status: int
) -> None:
    async with serving(short_folder, upstream) as (_, path), http_client(path) as http:
        answer = await http.post("/v1/chat/completions", json=streamed(status=status))
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "provider")


async def test_a_provider_that_will_not_stream_is_asked_for_it_whole(
    short_folder: Path, puppet: Puppet, upstream: Upstream
) -> None:
    order = {"status": 400}
    async with serving(short_folder, upstream) as (recorder, path), http_client(path) as http:
        await http.post("/v1/chat/completions", json=streamed(**order))
    assert [request["stream"] for request in puppet.requests] == [True, False]
    assert bodies(recorder, "model_call")[0]["error"]["kind"] == "agent"


async def test_streams_count_against_the_requests_that_run_at_once(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    budget = Budget(concurrent_requests=1)
    async with serving(short_folder, upstream, budget) as (_, path), http_client(path) as http:
        body = streamed(pieces=PIECES, wait=True)
        async with http.stream("POST", "/v1/chat/completions", json=body) as first:
            await anext(first.aiter_bytes())
            second = asyncio.create_task(http.post("/v1/chat/completions", json=streamed(pieces=PIECES)))
            _, waiting = await asyncio.wait({second}, timeout=0.2)
            assert waiting
            assert len(puppet.requests) == 1
            puppet.go_on.set()
            assert (await second).status_code == 200


async def test_half_a_character_at_the_end_of_a_packet_is_no_fault(
    short_folder: Path, upstream: Upstream
) -> None:
    pieces = [{"content": "größe 🛒" * 2_000}]
    async with serving(short_folder, upstream) as (recorder, path), http_client(path) as http:
        await http.post("/v1/chat/completions", json=streamed(pieces=pieces))
    assert bodies(recorder, "model_call")[0]["response"]["message"]["content"] == pieces[0]["content"]
    events.verify(recorder.log.events)
