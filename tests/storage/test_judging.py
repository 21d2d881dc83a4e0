"""Claims on the work of judging: each trace is somebody's, for a while, and nobody's work is done twice."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from storage import judging, traces
from storage.database import Database
from storage.judging import (
    IN_FORCE,
    Claim,
    Scope,
    announce,
    claim,
    lacking,
    listen,
    put_down,
    release,
    renew,
    reopen,
)
from storage.tables import Episode, Judging, Race
from storage.traces import record_judgement
from tests.storage.episodes import add_episodes, driven

OUTCOME = {"components": {"rule": 1.0}, "solved": True, "scorer": "t", "failures": []}
ME, OTHER = uuid.uuid4(), uuid.uuid4()
NO_CLAIM_S = -1.0
"""A hold that has ended when it begins, as that of a worker that died long ago."""


async def _append(database: Database, episode_id: uuid.UUID, **changes: Any) -> uuid.UUID:
    given: dict[str, Any] = {"attempt": 1, "final": True, "verdict": "solved", "reason": None}
    given |= {"outcome": OUTCOME, "events": driven(episode_id).events, "wall_s": 1.5} | changes
    async with database.session() as session:
        return await traces.append(session, episode_id=episode_id, **given)


async def _store(database: Database, number: int) -> list[uuid.UUID]:
    return [await _append(database, episode) for episode in await add_episodes(database, number)]


async def _claim(database: Database, who: uuid.UUID = ME, **options: Any) -> list[Claim]:
    given: dict[str, Any] = {"judge": "j", "rubric": "r", "hold_s": 60.0, "limit": 10} | options
    async with database.session() as session:
        return await claim(session, claimant=who, **given)


async def _answer(database: Database, held: Claim, grade: float | None, retry_in_s: float | None) -> bool:
    async with database.session() as session:
        ours = await put_down(session, held, retry_in_s=retry_in_s)
        if ours:
            await record_judgement(
                session,
                trace_id=held.trace_id,
                judge=held.judge,
                rubric=held.rubric,
                grade=grade,
                gate=None,
                rationale=None,
                citations=[],
                votes=[],
                disagreement=0.0,
                unjudged="no answer" if grade is None else None,
            )
        return ours


def _ids(claims: list[Claim]) -> list[uuid.UUID]:
    return [one.trace_id for one in claims]


async def test_only_final_scored_traces_without_an_answer_wait_for_a_judge(database: Database) -> None:
    final, retried, ours = await add_episodes(database, 3)
    waiting = await _append(database, final)
    await _append(database, retried, final=False)
    await _append(database, ours, verdict="unscored", reason="provider", outcome=None, events=())
    (held,) = await _claim(database)
    assert held.trace_id == waiting
    assert held.events == driven(final).events
    assert await _answer(database, held, 0.9, None)
    assert await _claim(database) == []
    assert _ids(await _claim(database, rubric="r2")) == [waiting]


async def test_a_claimed_trace_is_nobody_elses_until_the_claim_ends(database: Database) -> None:
    await _store(database, 3)
    mine = await _claim(database, ME, limit=2)
    theirs = await _claim(database, OTHER)
    assert (len(mine), len(theirs)) == (2, 1)
    assert not {one.trace_id for one in mine} & {one.trace_id for one in theirs}
    async with database.session() as session:
        await release(session, mine)
    again = await _claim(database, OTHER)
    assert sorted(one.trace_id for one in again) == sorted(one.trace_id for one in mine)
    assert {one.attempt for one in again} == {1}


async def test_claims_at_once_share_the_traces_and_double_none(database: Database) -> None:
    stored = await _store(database, 12)
    rounds = await asyncio.gather(*(_claim(database, uuid.uuid4(), limit=4) for _ in range(6)))
    rounds.append(await _claim(database, uuid.uuid4(), limit=12))
    taken = [one.trace_id for found in rounds for one in found]
    assert sorted(taken) == sorted(stored)


async def test_more_traces_than_are_lined_up_at_once_are_all_claimed_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_LINE_UP", 2)
    stored = await _store(database, 5)
    assert [trace_id for _ in range(5) for trace_id in _ids(await _claim(database, limit=1))] == stored
    assert await _claim(database, OTHER) == []


async def test_what_a_dead_worker_held_is_judged_by_another_and_its_own_answer_is_refused(
    database: Database,
) -> None:
    await _store(database, 1)
    (lost,) = await _claim(database, ME, hold_s=NO_CLAIM_S)
    (taken,) = await _claim(database, OTHER)
    assert taken.attempt == 2
    assert not await _answer(database, lost, 0.1, None)
    assert await _answer(database, taken, 0.9, None)
    assert await _claim(database) == []


async def test_a_renewed_claim_holds_and_a_lost_one_is_not_won_back(database: Database) -> None:
    await _store(database, 2)
    first, second = await _claim(database, ME, hold_s=NO_CLAIM_S)
    async with database.session() as session:
        await renew(session, [first], hold_s=60.0)
    (taken,) = await _claim(database, OTHER)
    assert taken.trace_id == second.trace_id
    async with database.session() as session:
        await renew(session, [second], hold_s=60.0)
    assert not await _answer(database, second, 0.5, None)


async def test_a_trace_without_an_answer_rests_and_then_comes_after_those_never_tried(
    database: Database,
) -> None:
    first, second = await _store(database, 2)
    (held,) = await _claim(database, limit=1)
    assert held.trace_id == first
    await _answer(database, held, None, 3600.0)
    async with database.session() as session:
        rests = await session.scalar(select(Judging.not_before - func.now()).where(Judging.trace_id == first))
    assert rests is not None
    assert rests.total_seconds() == pytest.approx(3600, abs=60)
    assert _ids(await _claim(database, limit=1, hold_s=NO_CLAIM_S)) == [second]
    async with database.session() as session:
        await session.execute(update(Judging).values(not_before=func.now()))
    third = await _append(database, (await add_episodes(database, 1))[0])
    assert (_ids(await _claim(database, limit=2)))[0] == third


async def test_a_trace_that_is_given_up_is_not_claimed_but_still_lacks_an_answer(database: Database) -> None:
    await _store(database, 1)
    (held,) = await _claim(database)
    await _answer(database, held, None, None)
    assert await _claim(database) == []
    async with database.session() as session:
        assert await lacking(session, judge="j", rubric="r", scope=IN_FORCE) == 1
        await reopen(session, judge="j", rubric="r", scope=IN_FORCE)
    assert [again.attempt for again in await _claim(database)] == [1]


async def test_what_somebody_holds_or_has_answered_is_not_reopened(database: Database) -> None:
    await _store(database, 2)
    answered, held = await _claim(database)
    await _answer(database, answered, 0.5, None)
    async with database.session() as session:
        await reopen(session, judge="j", rubric="r", scope=IN_FORCE)
    assert await _claim(database, OTHER) == []
    assert await _answer(database, held, 0.5, None)


async def test_a_race_that_is_long_over_is_judged_only_for_comparison(database: Database) -> None:
    (trace_id,) = await _store(database, 1)
    async with database.session() as session:
        await session.execute(update(Race).values(settled_at=func.now() - timedelta(days=3)))
    assert await _claim(database) == []
    assert _ids(await _claim(database, scope=Scope(in_force=False))) == [trace_id]


async def test_a_judge_takes_up_only_races_it_counts_in_unless_it_compares(database: Database) -> None:
    (trace_id,) = await _store(database, 1)
    async with database.session() as session:
        await session.execute(update(Race).values(judge="j", rubric="r"))
        race_id = await session.scalar(select(Episode.race_id))
    assert await _claim(database, rubric="r2") == []
    assert await _claim(database, judge="j2") == []
    assert await _claim(database, rubric="r2", scope=Scope(in_force=False, race_id=uuid.uuid4())) == []
    compared = await _claim(database, rubric="r2", scope=Scope(in_force=False, race_id=race_id))
    assert _ids(compared) == [trace_id]
    assert _ids(await _claim(database)) == [trace_id]


async def test_a_stored_trace_is_heard_of_when_its_transaction_commits(database: Database) -> None:
    first, second = await add_episodes(database, 2)
    heard = asyncio.Event()
    listening = asyncio.create_task(listen(database, heard))
    try:
        async with asyncio.timeout(20):
            await heard.wait()  # it listens now
            heard.clear()
            await _append(database, first)
            await heard.wait()
            heard.clear()
            await _append(database, second, final=False)
            async with database.session() as session:
                await announce(session, uuid.uuid4())
                assert not heard.is_set()
            await heard.wait()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
