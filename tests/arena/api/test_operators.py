"""Operators: only they, only while a race runs, and never unseen."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from sqlalchemy import func, select

from arena.operating import SUMMARIES
from storage.database import Database
from storage.judgements import record_judgement
from storage.tables import Episode, Judging, Trace
from tests.arena.api.stage import MINER, OPERATOR, Signed, api, asking, assert_problem
from tests.arena.stores import NOW, Clock
from tests.arena.test_races import Arena, better_wins


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(minutes=1))


@pytest.fixture
def arena(database: Database, clock: Clock) -> Arena:
    return Arena(database, clock)


async def act(
    client: httpx.AsyncClient, clock: Clock, action: str, reason: str = "because", race: int = 1
) -> httpx.Response:
    return await client.post(
        f"/v1/races/{race}/{action}", json={"reason": reason}, auth=Signed(OPERATOR, clock)
    )


async def test_a_paused_race_stands_still_until_it_is_resumed_and_both_are_in_the_log(
    arena: Arena, clock: Clock, database: Database
) -> None:
    race_id = await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        assert (await act(client, clock, "pause", "the provider is down")).json()["action"] == "pause"
        assert (await client.get("/v1/races/1")).json()["paused"]
        assert await arena.play(better_wins) == 0
        assert (await act(client, clock, "resume", "it is back")).status_code == 200
        assert (await arena.run(race_id, better_wins)).state == "settled"
        log = (await client.get("/v1/audit")).json()["items"]
    assert [(e["action"], e["race"], e["operator"], e["reason"], e["effect"]) for e in log] == [
        ("resume", 1, OPERATOR.ss58_address, "it is back", {"was_paused": True}),
        ("pause", 1, OPERATOR.ss58_address, "the provider is down", {"was_paused": False}),
    ]


async def test_a_race_ended_by_an_operator_is_void_with_the_reason_and_plays_no_more(
    arena: Arena, clock: Clock, database: Database
) -> None:
    race_id = await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        assert (await act(client, clock, "pause")).status_code == 200
        assert (await act(client, clock, "void", "the pool has leaked")).status_code == 200
        shown = (await client.get("/v1/races/1")).json()
        assert (shown["state"], shown["paused"]) == ("void", False)
        assert shown["void_reason"] == "by an operator: the pool has leaked"
        assert await arena.play(better_wins) == 0
        assert await arena.advance(race_id) == "void"
        for action in SUMMARIES:
            assert_problem(await act(client, clock, action), 409, "race_over")
        assert len((await client.get("/v1/audit")).json()["items"]) == 2


async def test_a_settled_race_cannot_be_touched(arena: Arena, clock: Clock, database: Database) -> None:
    settled = await arena.run(await arena.open(("good",), champion="champ"), better_wins)
    async with asking(api(database, clock)) as client:
        for action in SUMMARIES:
            assert_problem(await act(client, clock, action), 409, "race_over")
    assert (await arena.race(settled.id)).settlement == settled.settlement


async def test_judging_again_asks_for_what_was_given_up_and_leaves_the_grades(
    arena: Arena, clock: Clock, database: Database
) -> None:
    await arena.open(("good",), champion="champ")
    await arena.play(better_wins)
    async with database.session() as session:
        graded, given_up = (await session.scalars(select(Trace.id).order_by(Trace.id).limit(2))).all()
        for trace_id, grade in ((graded, 0.8), (given_up, None)):
            await _judged(session, trace_id, grade)
            session.add(
                Judging(
                    trace_id=trace_id,
                    judge="j",
                    rubric="r",
                    attempts=20,
                    waiting=False,
                    not_before=func.now(),
                )
            )
        traces = await session.scalar(select(func.count()).select_from(Episode))
    async with asking(api(database, clock)) as client:
        done = (await act(client, clock, "rejudge", "the judge is back")).json()
    assert done["effect"] == {"unanswered": (traces or 0) - 1}
    async with database.session() as session:
        rows = await session.execute(select(Judging.trace_id, Judging.waiting, Judging.attempts))
        assert {row.trace_id: (row.waiting, row.attempts) for row in rows} == {
            graded: (False, 20),
            given_up: (True, 0),
        }


async def _judged(session: object, trace_id: UUID, grade: float | None) -> None:
    await record_judgement(
        session,  # type: ignore[arg-type]
        trace_id=trace_id,
        judge="j",
        rubric="r",
        grade=grade,
        gate=None,
        rationale=None,
        citations=[],
        votes=[],
        disagreement=0.0,
        unjudged="down" if grade is None else None,
    )


async def test_nobody_else_can_and_nothing_is_logged(arena: Arena, clock: Clock, database: Database) -> None:
    await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        for action in SUMMARIES:
            address, body = f"/v1/races/1/{action}", {"reason": "mine"}
            assert_problem(await client.post(address, json=body), 401, "bad_signature")
            refused = await client.post(address, json=body, auth=Signed(MINER, clock))
            assert_problem(refused, 403, "not_operator")
        assert (await client.get("/v1/races/1")).json()["paused"] is False
        assert (await client.get("/v1/audit")).json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"reason": "  "}', b'{"reason": 1}', b'{"reason": "x", "y": 1}', b"\xff", b"[]"]
)
async def test_a_reason_must_be_given(arena: Arena, clock: Clock, database: Database, body: bytes) -> None:
    await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        refused = await client.post("/v1/races/1/void", content=body, auth=Signed(OPERATOR, clock))
        assert_problem(refused, 422, "bad_request")
        assert (await client.get("/v1/races/1")).json()["state"] == "qualifying"


async def test_a_reason_that_text_columns_cannot_hold_is_stored_visibly(
    arena: Arena, clock: Clock, database: Database
) -> None:
    await arena.open(("good",), champion="champ")
    async with asking(api(database, clock)) as client:
        assert (await act(client, clock, "void", "a\0b")).json()["reason"] == "a\u2400b"
        assert_problem(await act(client, clock, "void", race=9), 404, "not_found")
