"""Limits: what one caller may ask, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from arena.api.limits import Buckets, Limited, network
from arena.rules import Rules
from storage.database import Database
from tests.arena.api.stage import MINER, OTHER, RULES, Signed, api, asking, assert_problem
from tests.arena.stores import Clock


@given(
    st.floats(1, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 30), min_size=1, max_size=200),
)
def test_no_more_is_granted_than_the_burst_and_what_has_come_since(
    per_minute: float, burst: int, pauses: list[float]
) -> None:
    buckets = Buckets(per_minute, burst, keep=10)
    now = 0.0
    granted = 0
    for pause in pauses:
        now += pause
        granted += buckets.take("a", now) == 0.0
        assert granted <= burst + now * per_minute / 60 + 1e-6


@given(st.floats(1, 1000), st.integers(1, 20), st.integers(1, 100))
def test_who_waits_as_long_as_told_is_served(per_minute: float, burst: int, requests: int) -> None:
    buckets = Buckets(per_minute, burst, keep=10)
    now = 0.0
    for _ in range(requests):
        wait_s = buckets.take("a", now)
        if wait_s:
            now += wait_s + 1e-6
            assert buckets.take("a", now) == 0.0


@given(st.lists(st.integers(0, 50), max_size=300), st.integers(1, 20))
def test_memory_is_bounded_and_one_callers_requests_cost_no_other(keys: list[int], keep: int) -> None:
    buckets = Buckets(60, 1000, keep=keep)
    for key in keys:
        assert buckets.take(str(key), 0.0) == 0.0
        assert len(buckets) <= keep


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("testclient", "other", False),
    ],
)
def test_who_has_a_network_has_one_bucket(one: str, other: str, same: bool) -> None:
    assert (network(one) == network(other)) is same


def _few(**requests: float) -> Rules:
    return RULES.model_copy(update={"requests": RULES.requests.model_copy(update=requests)})


async def test_an_address_that_asks_too_often_is_told_how_long_to_wait_and_others_are_served(
    database: Database, clock: Clock
) -> None:
    now = [0.0]
    rules = _few(address_burst=3, address_per_minute=6)
    app = api(database, clock, rules=rules, tick=lambda: now[0])
    async with asking(app, "10.0.0.1") as busy, asking(app, "10.0.0.2") as other:
        for _ in range(3):
            assert (await busy.get("/v1/rules")).status_code == 200
        refused = await busy.get("/v1/rules")
        assert_problem(refused, 429, "rate_limited")
        assert 10 <= int(refused.headers["retry-after"]) <= 11
        assert (await other.get("/v1/rules")).status_code == 200
        now[0] += int(refused.headers["retry-after"])
        assert (await busy.get("/v1/rules")).status_code == 200


async def test_a_hotkey_that_asks_too_often_is_refused_wherever_it_asks_from(
    database: Database, clock: Clock
) -> None:
    app = api(database, clock, rules=_few(hotkey_burst=2))
    async with asking(app, "10.0.0.1") as one, asking(app, "10.0.0.2") as two:
        for client in (one, two):
            assert (await client.get("/v1/submissions", auth=Signed(MINER, clock))).status_code == 200
        refused = await one.get("/v1/submissions", auth=Signed(MINER, clock))
        assert_problem(refused, 429, "rate_limited")
        assert refused.headers["retry-after"]
        assert (await one.get("/v1/submissions", auth=Signed(OTHER, clock))).status_code == 200


async def test_a_forged_signature_uses_up_nothing_of_the_hotkeys(database: Database, clock: Clock) -> None:
    app = api(database, clock, rules=_few(hotkey_burst=1))
    async with asking(app) as client:
        for _ in range(3):
            forged = await client.get(
                "/v1/submissions", auth=Signed(MINER, clock, receiver=OTHER.ss58_address)
            )
            assert_problem(forged, 401, "bad_signature")
        assert (await client.get("/v1/submissions", auth=Signed(MINER, clock))).status_code == 200


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_where_none_belongs_is_refused(
    database: Database, clock: Clock, announced: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:  # sent in pieces, its size is not announced
        yield b"x" * 100

    auth = Signed(MINER, clock)
    async with asking(api(database, clock)) as client:
        if announced:
            answer = await client.request("GET", "/v1/submissions", content=b"x", auth=auth)
        else:
            answer = await client.request("GET", "/v1/submissions", content=pieces(), headers={})
        assert_problem(answer, 413, "too_large")


async def test_a_request_that_takes_too_long_is_ended_and_told_so() -> None:
    ended = asyncio.Event()

    async def stuck(_: Request) -> PlainTextResponse:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return PlainTextResponse("never")

    app = _limited(stuck, deadline_s=0.01)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://v") as client:
        assert_problem(await client.get("/"), 503, "unavailable")
    assert ended.is_set()


async def test_a_timeout_of_something_else_is_not_taken_for_the_deadline() -> None:
    async def late(_: Request) -> PlainTextResponse:
        raise TimeoutError

    transport = httpx.ASGITransport(app=_limited(late, deadline_s=60))
    async with httpx.AsyncClient(transport=transport, base_url="http://v") as client:
        with pytest.raises(TimeoutError):
            await client.get("/")


def _limited(endpoint: Callable[..., object], *, deadline_s: float) -> Limited:
    return Limited(
        Starlette(routes=[Route("/", endpoint)]), Buckets(60, 60, keep=10), lambda: 0.0, deadline_s
    )
