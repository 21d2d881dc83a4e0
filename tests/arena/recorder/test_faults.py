"""What a provider can do wrong, against a real server: asked again within bounds, then its fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arena.agent_kit.client import ModelError
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.recorder.wire import CONNECTION
from tests.arena.puppet import KEY, Puppet, say, tell
from tests.arena.recorder.test_server import bodies, in_thread, kit, serving


@pytest.mark.parametrize(
    "order", [{"status": 429}, {"status": 500}, {"status": 503}, {"cut": True}, {"body": "<html>"}]
)
async def test_each_fault_is_asked_about_again_so_often_and_no_more(
    short_folder: Path, upstream: Upstream, puppet: Puppet, order: dict[str, Any]
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match="provider failed"):
            await in_thread(llm.chat, tell(**{"message": {"content": "x"}, **order}))
    assert len(puppet.requests) == 1 + upstream.retries
    assert recorder.provider_fault is not None


async def test_a_provider_that_does_not_answer_in_time_is_asked_again(
    short_folder: Path, puppet: Puppet
) -> None:
    impatient = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), timeout_s=0.5, retries=1, pause_s=0)
    async with serving(short_folder, impatient) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match=r"no answer within 0\.5 s"):
            await in_thread(llm.chat, tell(hang=True), max_tokens=10)
    await impatient.aclose()
    assert len(puppet.requests) == 2
    assert recorder.provider_fault is not None


async def test_a_provider_that_asks_to_wait_a_moment_is_asked_again_after_it(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        orders = say("now", fail_first=1, first_status=429, retry_after="1")
        assert (await in_thread(llm.chat, orders))["content"] == "now"
    assert len(puppet.requests) == 2
    assert bodies(recorder, "model_call")[0]["elapsed_ms"] >= 1000
    assert recorder.provider_fault is None


@pytest.mark.parametrize(
    ("retry_after", "wall_s"), [("3600", None), ("5", 4.0), ("Sat, 01 Jan 2095 00:00:00 GMT", None)]
)
async def test_a_provider_that_asks_to_wait_beyond_reason_or_the_episode_has_failed_the_call(
    short_folder: Path, upstream: Upstream, puppet: Puppet, retry_after: str, wall_s: float | None
) -> None:
    async with serving(short_folder, upstream, Budget(wall_s=wall_s)) as (recorder, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match="status 429"):
            await in_thread(llm.chat, tell(status=429, retry_after=retry_after))
    assert len(puppet.requests) == 1
    assert recorder.provider_fault is not None


async def test_a_header_that_says_no_time_is_no_reason_to_wait(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (_, path):
        _, _, llm = await kit(path)
        orders = say("now", fail_first=2, retry_after="soon")
        assert (await in_thread(llm.chat, orders))["content"] == "now"
    assert len(puppet.requests) == 3


async def test_a_redirection_is_not_followed(short_folder: Path, upstream: Upstream, puppet: Puppet) -> None:
    async with serving(short_folder, upstream) as (_, path):
        _, _, llm = await kit(path)
        with pytest.raises(ModelError, match="status 307"):
            await in_thread(llm.chat, tell(status=307))
    assert len(puppet.requests) == 1 + upstream.retries


async def test_a_connection_that_we_lose_in_the_middle_of_a_request_is_our_failure(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (recorder, path):
        _, _, llm = await kit(path)
        asking = asyncio.ensure_future(in_thread(llm.chat, tell(hang=True)))
        await in_thread(puppet.wait_for_requests, 1)
        (serving_it,) = (task for task in asyncio.all_tasks() if task.get_name() == CONNECTION)
        serving_it.cancel()
        with pytest.raises(OSError, match=r"closed|reset"):
            await asking
    assert recorder.fault == "recorder: a connection was lost: it was cancelled"
