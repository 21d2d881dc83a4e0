"""Judging stored traces again, by another judge or rubric, beside what was said of them before.

The one thing to know: nothing is replaced. A trace keeps one judgement for each judge and rubric, and a race
that was settled was, and stays, settled by its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from judge.judgement import Judge
from judge.worker import JudgedCount, JudgeWorker, Pace
from storage.database import Database
from storage.judging import Scope, lacking, reopen
from storage.tables import Episode, Judged, Race, Trace


@dataclass(frozen=True, slots=True)
class Move:
    """So many traces went from one gate and grade to another."""

    gate: str
    grade: float
    new_gate: str
    new_grade: float
    traces: int


@dataclass(frozen=True, slots=True)
class Shift:
    """How the new judgements differ from those that count in the races of their traces."""

    judge: str
    rubric: str
    judged_now: int
    compared: int
    """Traces with both judgements."""
    nothing_before: int
    """Traces with the new one alone: the race's own judge has not answered, or the race has none."""
    lacking: int
    """Traces without the new one: the judge could not answer; they rest until it is asked again."""
    mean_change: float | None
    """New grade minus old, over what was compared."""
    up: int
    down: int
    moves: tuple[Move, ...]
    """Of all that was compared, the unmoved ones too."""

    def to_json(self) -> dict[str, Any]:
        """The shift as a JSON object."""
        return asdict(self)


async def rejudge(
    database: Database, judge: Judge, *, race_id: UUID | None = None, pace: Pace | None = None
) -> Shift:
    """Have `judge` grade every final, scored trace (of one race) that it has not graded by its rubric, and
    compare. Killed, or short of answers, it goes on where it was when called again; what was given up is then
    tried again, too.
    """
    scope = Scope(in_force=False, race_id=race_id)
    async with database.session() as session:
        await reopen(session, judge=judge.name, rubric=judge.rubric, scope=scope)
    counted = await JudgeWorker(database, judge, pace=pace or Pace(), scope=scope).drain()
    return await _compared(database, judge, scope, counted)


def shift(
    judge: str, rubric: str, moves: Iterable[Move], *, judged_now: int, nothing_before: int, lacking: int
) -> Shift:
    """A shift from its moves. Pure."""
    found = tuple(sorted(moves, key=lambda m: (m.grade, m.new_grade, m.gate, m.new_gate)))
    compared = sum(move.traces for move in found)
    change = sum((move.new_grade - move.grade) * move.traces for move in found)
    return Shift(
        judge=judge,
        rubric=rubric,
        judged_now=judged_now,
        compared=compared,
        nothing_before=nothing_before,
        lacking=lacking,
        mean_change=change / compared if compared else None,
        up=sum(move.traces for move in found if move.new_grade > move.grade),
        down=sum(move.traces for move in found if move.new_grade < move.grade),
        moves=found,
    )


async def _compared(database: Database, judge: Judge, scope: Scope, counted: JudgedCount) -> Shift:
    new, old = aliased(Judged), aliased(Judged)
    in_force = and_(
        old.trace_id == new.trace_id,
        old.judge == Race.judge,
        old.rubric == Race.rubric,
        old.grade.is_not(None),
    )
    columns = (old.gate, old.grade, new.gate, new.grade)
    query = (
        select(*columns, func.count())
        .select_from(new)
        .join(Trace, Trace.id == new.trace_id)
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .outerjoin(old, in_force)
        .where(new.judge == judge.name, new.rubric == judge.rubric, new.grade.is_not(None))
        .group_by(*columns)
    )
    if scope.race_id is not None:
        query = query.where(Race.id == scope.race_id)
    async with database.session() as session:
        rows = (await session.execute(query)).all()
        left = await lacking(session, judge=judge.name, rubric=judge.rubric, scope=scope)
    return shift(
        judge.name,
        judge.rubric,
        [
            Move(gate or "", grade, new_gate or "", new_grade, traces)
            for gate, grade, new_gate, new_grade, traces in rows
            if grade is not None and new_grade is not None
        ],
        judged_now=counted.judged,
        nothing_before=sum(row[-1] for row in rows if row[1] is None),
        lacking=left,
    )
