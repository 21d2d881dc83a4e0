"""Judging again: everything that was said stays, and the shift is told."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from judge.grounded import GroundedJudge
from judge.rejudging import Move, rejudge, shift
from judge.rubric import RUBRIC
from judge.worker import judge_pending
from storage import traces
from storage.database import Database
from storage.tables import Episode, Judged, Race
from storage.traces import TraceQuery
from tests.judge.episodes import CLOSING, COMPARISON
from tests.judge.episodes import Episode as Played
from tests.storage.episodes import add_episodes

FAILED = {"components": {"product": 0.0}, "solved": False, "scorer": "r", "failures": []}
STRICT = replace(
    RUBRIC,
    version="strict",
    gates=tuple(replace(gate, grade=gate.grade / 2) for gate in RUBRIC.gates),
)
"""The same gates, worth half."""


async def _store(database: Database, number: int) -> None:
    for i, episode_id in enumerate(await add_episodes(database, number)):
        played = Played(episode_id=str(episode_id)).search()
        if i == 0:
            played.think(COMPARISON).recommend(CLOSING)
        async with database.session() as session:
            await traces.append(
                session,
                episode_id=episode_id,
                attempt=1,
                final=True,
                verdict="failed",
                reason="product",
                outcome=FAILED,
                events=played.events,
                wall_s=1.0,
            )


async def _judged_in_force(database: Database) -> uuid.UUID:
    """Three traces of one race, judged by the judge that counts in it."""
    await _store(database, 3)
    judge = GroundedJudge()
    async with database.session() as session:
        await session.execute(update(Race).values(judge=judge.name, rubric=judge.rubric))
        race_id = await session.scalar(select(Episode.race_id).limit(1))
    await judge_pending(database, judge, limit=10)
    assert race_id is not None
    return race_id


async def _by_rubric(database: Database) -> dict[str, int]:
    async with database.session() as session:
        rows = await session.execute(select(Judged.rubric, func.count()).group_by(Judged.rubric))
        return {rubric: count for rubric, count in rows}  # noqa: C416


async def test_judging_again_keeps_what_was_said_and_tells_the_shift(database: Database) -> None:
    race_id = await _judged_in_force(database)
    found = await rejudge(database, GroundedJudge(STRICT), race_id=race_id)
    assert await _by_rubric(database) == {RUBRIC.id: 3, STRICT.id: 3}
    assert (found.judged_now, found.compared, found.lacking, found.nothing_before) == (3, 3, 0, 0)
    assert (found.up, found.down) == (0, 3)
    assert [(m.gate, m.new_gate, m.traces) for m in found.moves] == [
        ("worked", "worked", 2),
        ("tracked", "tracked", 1),
    ]
    assert found.mean_change == pytest.approx((-0.15 * 2 - 0.5) / 3)


async def test_what_is_shown_of_a_trace_is_what_counts_in_its_race(database: Database) -> None:
    await _judged_in_force(database)
    await rejudge(database, GroundedJudge(STRICT))
    shown = [trace.judgement async for trace in traces.stream(database, TraceQuery())]
    assert {judgement.rubric for judgement in shown if judgement is not None} == {RUBRIC.id}
    asked = [t.judgement async for t in traces.stream(database, TraceQuery(rubric=STRICT.id))]
    assert {judgement.rubric for judgement in asked if judgement is not None} == {STRICT.id}


async def test_what_was_judged_again_already_is_not_asked_about_twice(database: Database) -> None:
    await _judged_in_force(database)
    first = await rejudge(database, GroundedJudge(STRICT))
    second = await rejudge(database, GroundedJudge(STRICT))
    assert second == replace(first, judged_now=0)


async def test_judging_again_by_the_judge_in_force_shifts_nothing(database: Database) -> None:
    await _judged_in_force(database)
    found = await rejudge(database, GroundedJudge())
    assert (found.judged_now, found.compared, found.mean_change) == (0, 3, 0.0)


async def test_another_races_traces_are_left_alone(database: Database) -> None:
    await _judged_in_force(database)
    found = await rejudge(database, GroundedJudge(STRICT), race_id=uuid.uuid4())
    assert (found.judged_now, found.compared, found.mean_change) == (0, 0, None)
    assert await _by_rubric(database) == {RUBRIC.id: 3}


async def test_traces_that_nobody_judged_before_are_told_apart(database: Database) -> None:
    await _store(database, 2)
    found = await rejudge(database, GroundedJudge(STRICT))
    assert (found.judged_now, found.nothing_before, found.compared) == (2, 2, 0)


GRADES = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
MOVES = st.lists(st.builds(Move, st.just("g"), GRADES, st.just("h"), GRADES, st.integers(1, 50)), max_size=9)


@given(MOVES)
def test_a_shift_is_the_mean_over_every_trace(moves: list[Move]) -> None:
    found = shift("j", "r", moves, judged_now=0, nothing_before=0, lacking=0)
    changes = [move.new_grade - move.grade for move in moves for _ in range(move.traces)]
    assert found.compared == len(changes)
    assert found.up == sum(change > 0 for change in changes)
    assert found.down == sum(change < 0 for change in changes)
    if changes:
        assert found.mean_change == pytest.approx(sum(changes) / len(changes), abs=1e-9)
    else:
        assert found.mean_change is None
