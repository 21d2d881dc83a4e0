"""An agent that would rather not be scored, and looks for a way to make the provider seem at fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arena.recorder.upstream import ORDINARY_TOKENS, Upstream
from tests.arena.puppet import KEY, Puppet, say, tell
from tests.arena.recorder.test_server import bodies, http_client, in_thread, kit, serving

LARGE = ORDINARY_TOKENS + 1


@pytest.fixture
async def impatient(puppet: Puppet) -> AsyncIterator[Upstream]:
    made = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), timeout_s=2, retries=0, pause_s=0.01)
    yield made
    await made.aclose()


async def fault_after(folder: Path, upstream: Upstream, **body: Any) -> tuple[str, bool]:
    """Whose error a chat was, and whether the provider was at fault by it."""
    async with serving(folder, upstream) as (recorder, path), http_client(path) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code != 200
    return bodies(recorder, "model_call")[-1]["error"]["kind"], recorder.provider_fault is not None


@pytest.mark.parametrize("more", [{}, {"max_tokens": LARGE}])
async def test_a_large_request_that_is_late_while_small_ones_are_answered_is_the_agents_doing(
    short_folder: Path, impatient: Upstream, puppet: Puppet, more: dict[str, int]
) -> None:
    messages = tell(hang=True)
    assert await fault_after(short_folder, impatient, messages=messages, **more) == ("agent", False)
    assert len(puppet.requests) == 2


async def test_a_long_prompt_makes_a_request_large(short_folder: Path, impatient: Upstream) -> None:
    messages = [{"role": "user", "content": "x" * 40_000}, *tell(hang=True)]
    assert await fault_after(short_folder, impatient, messages=messages, max_tokens=5) == ("agent", False)


async def test_an_ordinary_request_that_is_late_is_the_providers_fault(
    short_folder: Path, impatient: Upstream, puppet: Puppet
) -> None:
    messages = tell(hang=True)
    assert await fault_after(short_folder, impatient, messages=messages, max_tokens=ORDINARY_TOKENS) == (
        "provider",
        True,
    )
    assert len(puppet.requests) == 1


async def test_a_provider_that_is_late_with_everything_is_at_fault_for_large_requests_too(
    short_folder: Path, impatient: Upstream, puppet: Puppet
) -> None:
    puppet.well = False
    assert await fault_after(short_folder, impatient, messages=tell(hang=True)) == ("provider", True)


async def test_words_that_a_provider_will_not_hear_are_the_agents_doing(
    short_folder: Path, upstream: Upstream
) -> None:
    assert await fault_after(short_folder, upstream, messages=tell(status=403)) == ("agent", False)


async def test_a_key_that_a_provider_will_not_take_is_not(
    short_folder: Path, impatient: Upstream, puppet: Puppet
) -> None:
    puppet.well = False
    assert await fault_after(short_folder, impatient, messages=tell(status=403)) == ("provider", True)


@pytest.mark.parametrize("character", ["\\u0000", "\\ud800"])
async def test_a_character_that_the_model_was_made_to_write_is_no_fault_of_the_provider(
    short_folder: Path, upstream: Upstream, character: str
) -> None:
    answer = '{"choices": [{"message": {"content": "' + character + '"}}]}'
    assert await fault_after(short_folder, upstream, messages=tell(body=answer)) == ("agent", False)


async def test_a_request_counts_as_the_providers_fault_until_it_is_known_not_to(
    short_folder: Path, impatient: Upstream, puppet: Puppet
) -> None:
    puppet.well = False
    async with serving(short_folder, impatient) as (recorder, path):
        _, _, llm = await kit(path)
        asking = asyncio.create_task(in_thread(llm.chat, tell(hang=True)))
        await in_thread(puppet.wait_for_requests, 2)  # the second is our own question
    with pytest.raises(ConnectionError):
        await asking
    assert recorder.provider_fault is not None


async def test_a_prompt_beyond_the_limit_never_reaches_the_provider(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    messages = [{"role": "user", "content": "x" * (256 * 1024)}]
    assert await fault_after(short_folder, upstream, messages=messages) == ("agent", False)
    assert puppet.requests == []


async def test_numbers_that_providers_fail_on_are_brought_into_their_range(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, upstream) as (_, path), http_client(path) as client:
        for seed, temperature in ((2**63 - 1, 1e-300), (-1, 0.7), (5, 0.0)):
            body = {"messages": say("x"), "seed": seed, "temperature": temperature}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert [(sent["seed"], sent["temperature"]) for sent in puppet.requests] == [
        (2**31 - 1, 0.0),
        (2**31 - 1, 0.7),
        (5, 0.0),
    ]
