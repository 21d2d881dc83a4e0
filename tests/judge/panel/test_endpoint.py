"""One model over HTTP: its faults, its breaker, what it costs, and that its key goes nowhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from judge.endpoint import (
    CircuitOpen,
    Endpoint,
    EndpointConfig,
    EndpointFault,
    OutOfTokens,
    RateLimited,
    Refused,
    RequestRefused,
    SpendCapReached,
    TimedOut,
    Unreachable,
)
from judge.scripted_judge import (
    Asked,
    Response,
    Script,
    ScriptedJudges,
    at_first,
    completion,
    dropping,
    failing,
    honest,
    rate_limited,
    raw,
    saying,
    serve,
    slow,
    thinking_aloud,
)
from tests.judge.panel.test_breaker import Clock

ASKED = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
KEY = "sk-hush-hush"


class Wallet:
    """Keeps count of what is set aside and returned."""

    def __init__(self, holds: int = 10**12) -> None:
        self.holds = holds

    async def reserve(self, amount: int) -> date:
        if amount > self.holds:
            raise SpendCapReached("empty")
        self.holds -= amount
        return date.min

    async def settle(self, reserved: int, cost: int, day: date) -> None:
        assert day == date.min
        self.holds += reserved - cost


@asynccontextmanager
async def _endpoint(
    script: Script, clock: Clock | None = None, **config: Any
) -> AsyncIterator[tuple[Endpoint, ScriptedJudges]]:
    async with serve({"m": script}) as judges:
        given = {"api_key": SecretStr(KEY), "prompt_price": 1.0, "completion_price": 4.0, "max_tokens": 500}
        endpoint = Endpoint(
            EndpointConfig(judges.base_url, "m", **{**given, **config}), clock=clock or Clock()
        )
        try:
            yield endpoint, judges
        finally:
            await endpoint.aclose()


async def _spent(endpoint: Endpoint) -> tuple[EndpointFault | str, int]:
    wallet = Wallet()
    before = wallet.holds
    try:
        said: EndpointFault | str = (await endpoint.ask(ASKED, {}, wallet)).text
    except EndpointFault as fault:
        said = fault
    return said, before - wallet.holds


async def test_an_answer_costs_what_its_tokens_cost() -> None:
    async with _endpoint(saying("well")) as (endpoint, judges):
        assert await _spent(endpoint) == ("well", 1000 * 1_000 + 200 * 4_000)
        assert endpoint.spent == 1_800_000
        assert judges.asked[0].headers["authorization"] == f"Bearer {KEY}"
        assert judges.asked[0].body["temperature"] == 0


@pytest.mark.parametrize(
    ("script", "fault", "cost"),
    [
        (failing(500), Unreachable, 0),
        (failing(401), Refused, 0),
        (failing(400), RequestRefused, 0),
        (rate_limited(3), RateLimited, 0),
        (thinking_aloud(), OutOfTokens, 1000 * 1_000 + 500 * 4_000),
        (dropping(), Unreachable, None),
        (raw(b"null"), EndpointFault, None),
        (raw(b"{}" + b" " * 2**21), EndpointFault, None),
        (raw(completion("").body), EndpointFault, 1_800_000),
        (raw(completion("x").body.replace(b'"content": "x"', b'"refusal": "no"')), RequestRefused, 1_800_000),
    ],
)
async def test_a_fault_has_its_type_and_its_cost_and_an_unknown_cost_counts_in_full(
    script: Script, fault: type[EndpointFault], cost: int | None
) -> None:
    async with _endpoint(script) as (endpoint, _):
        said, spent = await _spent(endpoint)
        assert isinstance(said, fault)
        assert spent == (endpoint.config.worst_cost(ASKED) if cost is None else cost)
        assert endpoint.spent == spent


async def test_a_reply_without_usage_counts_in_full() -> None:
    async with _endpoint(raw(completion("x").body.replace(b'"usage"', b'"used"'))) as (endpoint, _):
        assert await _spent(endpoint) == ("x", endpoint.config.worst_cost(ASKED))


async def test_an_answer_that_does_not_come_in_time_is_a_timeout() -> None:
    never = asyncio.get_running_loop().create_future()
    async with _endpoint(slow(never, honest(0)), timeout_s=0.1) as (endpoint, _):
        said, spent = await _spent(endpoint)
        assert isinstance(said, TimedOut)
        assert spent == endpoint.config.worst_cost(ASKED)
    never.cancel()


async def test_the_breaker_opens_after_faults_in_a_row_and_a_probe_closes_it() -> None:
    clock = Clock()
    async with _endpoint(at_first(3, failing(503), saying("well")), clock) as (endpoint, judges):
        for _ in range(3):
            assert isinstance((await _spent(endpoint))[0], Unreachable)
        assert (endpoint.state, endpoint.ready) == ("open", False)
        said, spent = await _spent(endpoint)
        assert isinstance(said, CircuitOpen)
        assert (spent, judges.count("m")) == (0, 3)
        clock.now += 30
        assert (await _spent(endpoint))[0] == "well"
        assert endpoint.state == "closed"


async def test_a_probe_that_fails_opens_the_breaker_again() -> None:
    clock = Clock()
    async with _endpoint(failing(503), clock, faults_to_open=1) as (endpoint, judges):
        await _spent(endpoint)
        clock.now += 30
        await _spent(endpoint)
        assert (endpoint.state, judges.count("m")) == ("open", 2)


async def test_what_evidence_can_bring_about_does_not_open_the_breaker() -> None:
    for script in (failing(400), failing(413), thinking_aloud(), saying("nonsense")):
        async with _endpoint(script) as (endpoint, _):
            for _ in range(5):
                await _spent(endpoint)
            assert endpoint.state == "closed"


async def test_a_rate_limited_endpoint_is_left_alone_for_as_long_as_it_asked() -> None:
    clock = Clock()
    async with _endpoint(at_first(1, rate_limited(7), saying("well")), clock) as (endpoint, judges):
        assert isinstance((await _spent(endpoint))[0], RateLimited)
        clock.now += 6.9
        assert not endpoint.ready
        assert isinstance((await _spent(endpoint))[0], RateLimited)
        assert judges.count("m") == 1
        clock.now += 0.2
        assert (await _spent(endpoint))[0] == "well"


async def test_no_more_requests_are_under_way_than_allowed() -> None:
    both_there = asyncio.Event()
    under_way = most = 0

    async def counting(asked: Asked) -> Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if asked.number == 2:
            both_there.set()
        await both_there.wait()
        under_way -= 1
        return completion("well")

    async with _endpoint(counting, max_concurrent=2) as (endpoint, _):
        answers = await asyncio.gather(*(_spent(endpoint) for _ in range(6)))
        assert [said for said, _ in answers] == ["well"] * 6
        assert most == 2


async def test_the_request_can_be_fitted_to_a_provider() -> None:
    request = {"max_tokens": None, "max_completion_tokens": 900, "reasoning_effort": "low"}
    async with _endpoint(saying("well"), request=request) as (endpoint, judges):
        await _spent(endpoint)
        body = judges.asked[0].body
        assert "max_tokens" not in body
        assert (body["max_completion_tokens"], body["reasoning_effort"]) == (900, "low")


async def test_without_money_nothing_is_asked() -> None:
    async with _endpoint(saying("well")) as (endpoint, judges):
        with pytest.raises(SpendCapReached):
            await endpoint.ask(ASKED, {}, Wallet(holds=10))
        assert (judges.count("m"), endpoint.state) == (0, "closed")


async def test_the_key_is_in_no_error_log_or_representation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for script in (failing(401, message="bad key {key}"), failing(500, message="{key}"), dropping()):
        async with _endpoint(script) as (endpoint, _):
            said, _ = await _spent(endpoint)
            assert isinstance(said, EndpointFault)
            assert "hush" not in f"{said} {said!r} {endpoint!r} {endpoint.config!r}"
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://user:pw@h/v1"}, "without user"),
        ({"base_url": "http://h/v1?key=x"}, "without user"),
        ({"base_url": "ftp://h"}, "http"),
        ({"prompt_price": -1.0}, "prices"),
        ({"completion_price": float("nan")}, "prices"),
        ({"timeout_s": 0.0}, "above zero"),
        ({"request": {"n": 5}}, "n of a request"),
    ],
)
def test_a_config_that_cannot_be_used_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EndpointConfig(**{"base_url": "http://h/v1", "model": "m", **changes})
