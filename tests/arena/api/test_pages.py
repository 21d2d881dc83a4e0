"""Pages and tags: a list ends, shows everything once, and is not sent twice to who has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from arena.api.etags import names
from arena.api.pages import cursor, page, place
from arena.api.problem_details import ApiError
from arena.operating import operate
from storage.database import Database
from storage.tables import Race
from tests.arena.api.stage import MINER, Signed, api, asking, assert_problem, listed
from tests.arena.stores import NOW, Clock, add_submission
from tests.arena.test_races import Arena, better_wins

TIMES = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))
TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60)


@given(TIMES, st.uuids(), st.integers(0, 2**40), TEXTS)
def test_a_cursor_holds_its_place(at: datetime, number: UUID, count: int, text: str) -> None:
    given_back = place(cursor(at, number, count, text), datetime, UUID, int, str)
    assert given_back == (at, number, count, text)


@given(st.text(max_size=80))
def test_what_is_no_cursor_is_refused_as_one(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        place(text, int, UUID)
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize(
    "forged", [cursor(-1), cursor(2**60), cursor("x"), cursor(1, 2), cursor(True), cursor("\0")]
)
def test_another_lists_cursor_is_refused(forged: str) -> None:
    with pytest.raises(ApiError):
        place(forged, int)


@given(st.lists(st.integers(0, 1000), unique=True, max_size=30), st.integers(1, 7))
def test_pages_together_are_the_list(numbers: list[int], limit: int) -> None:
    rows = sorted(numbers)
    found: list[int] = []
    after = -1
    while True:
        asked = [n for n in rows if n > after][: limit + 1]
        one = page(asked, limit, int, lambda n: (n,))
        found += one.items
        if one.next is None:
            break
        (after,) = place(one.next, int) or ()
    assert found == rows


@pytest.mark.parametrize(
    ("header", "met"),
    [
        ("", False),
        ("*", True),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ('"b"', False),
        ("a", False),
    ],
)
def test_if_none_match_is_read_as_http_has_it(header: str, met: bool) -> None:
    assert names(header, '"a"') is met


async def test_every_list_is_whole_in_pages_of_two(database: Database) -> None:
    clock = Clock(NOW + timedelta(minutes=1))
    arena = Arena(database, clock)
    await arena.run(await arena.open(("good", "weak"), champion="champ"), better_wins)
    async with database.session() as session:
        mine = [await add_submission(session, MINER.ss58_address, at=NOW) for _ in range(5)]
    race = await arena.race(await _first(arena))
    for _ in range(4):
        await arena.engine.open_race(race.public_suite_id, race.pool_suite_id)
        await _void(arena)
    clock.move(hours=48)
    async with asking(api(database, clock)) as client:
        assert [r["number"] for r in await listed(client, "/v1/races")] == [5, 4, 3, 2, 1]
        agents = await listed(client, "/v1/agents")
        assert len({agent["submission_id"] for agent in agents}) == len(agents) == 8
        own = await listed(client, f"/v1/agents?hotkey={MINER.ss58_address}")
        assert {agent["submission_id"] for agent in own} == set(map(str, mine))
        submissions = await listed(client, "/v1/submissions", Signed(MINER, clock))
        assert {s["submission_id"] for s in submissions} == set(map(str, mine))
        assert len(await listed(client, "/v1/suites")) == 2
        problems = await listed(client, f"/v1/suites/{race.public_suite_id}/problems")
        assert [p["problem"]["problem_id"] for p in problems] == [f"public-{i:03}" for i in range(4)]
        drawn = await listed(client, f"/v1/suites/{race.pool_suite_id}/problems")
        assert [p["problem"]["problem_id"] for p in drawn] == sorted(race.drawn or ())
        results = await listed(client, "/v1/races/1/results")
        assert [r["problem_id"] for r in results] == race.drawn
        traces = await listed(client, "/v1/traces")
        assert len({trace["trace_id"] for trace in traces}) == len(traces) == 3 * 4 + 2 * 10
        assert len(await listed(client, "/v1/audit")) == 4
        first = (await client.get("/v1/leaderboard?limit=1")).json()
        rest = (await client.get(f"/v1/leaderboard?limit=1&cursor={first['next']}")).json()
        assert [row["hotkey"] for row in first["rows"] + rest["rows"]] == ["good", "champ"]
        assert rest["next"] is None


async def test_an_answer_that_is_known_is_not_sent_again_and_a_changed_one_is(database: Database) -> None:
    clock = Clock(NOW + timedelta(minutes=1))
    arena = Arena(database, clock)
    race_id = await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        first = await client.get("/v1/races/1")
        known = {"If-None-Match": first.headers["etag"]}
        again = await client.get("/v1/races/1", headers=known)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert "content-type" not in again.headers
        await arena.run(race_id, better_wins)
        changed = await client.get("/v1/races/1", headers=known)
        assert (changed.status_code, changed.json()["state"]) == (200, "settled")


async def test_what_is_for_one_hotkey_alone_and_errors_are_not_to_be_stored(
    database: Database, clock: Clock
) -> None:
    async with asking(api(database, clock)) as client:
        own = await client.get("/v1/submissions", auth=Signed(MINER, clock))
        missing = await client.get("/v1/races/9", headers={"If-None-Match": "*"})
        assert_problem(missing, 404, "not_found")
        for answer in (own, missing):
            assert answer.headers["cache-control"] == "no-store"
            assert "etag" not in answer.headers


async def _first(arena: Arena) -> UUID:
    async with arena.database.session() as session:
        found = await session.scalar(select(Race.id).where(Race.number == 1))
    assert found is not None
    return found


async def _void(arena: Arena) -> None:
    """End the race that is running, as an operator does."""
    async with arena.database.session() as session:
        race_id = await session.scalar(select(Race.id).where(Race.state == "qualifying"))
        assert race_id is not None
        await operate(session, race_id, "void", operator="o", reason="test", now=arena.clock())
