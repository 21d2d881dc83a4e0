"""Judgements in the store: what a judge said of a trace, and which judgement to show.

The one thing to know: that a judge could not answer is a row of its own kind, without a grade, and an answer
is never replaced by it. An answer that comes when the trace's race is over is marked late, and replaces none
that the race was decided by.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from storage.events import Event
from storage.tables import Episode, Judged, Race, Trace

_UNSTORABLE = {0: "\N{SYMBOL FOR NULL}"} | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A judgement, or, with `grade` None and `unjudged` set, that the judge could not answer."""

    judge: str
    rubric: str
    grade: float | None
    """In [0, 1]."""
    gate: str | None
    rationale: str | None
    citations: tuple[Any, ...]
    votes: tuple[Any, ...]
    disagreement: float
    unjudged: str | None
    abstentions: tuple[Any, ...] = ()
    contradicted: bool = False
    late: bool = False


async def record_judgement(
    session: AsyncSession,
    *,
    trace_id: uuid.UUID,
    judge: str,
    rubric: str,
    grade: float | None,
    gate: str | None,
    rationale: str | None,
    citations: Sequence[Any],
    votes: Sequence[Any],
    disagreement: float,
    unjudged: str | None,
    abstentions: Sequence[Any] = (),
    contradicted: bool = False,
) -> None:
    """Store what a judge said of a trace by one rubric; said again, the newer answer stands.

    An answer is never replaced by the lack of one, nor one in time by a late one. Raises ValueError unless
    exactly one of `grade` (0 to 1) and `unjudged` is given.
    """
    if (grade is None) == (unjudged is None):
        raise ValueError("a judgement has either a grade or the reason why there is none")
    if grade is not None and not 0.0 <= grade <= 1.0:
        raise ValueError(f"a grade lies between 0 and 1, not {grade}")
    late = await _race_is_over(session, trace_id)
    said = {
        "grade": grade,
        "late": late,
        "gate": storable(gate),
        "rationale": storable(rationale),
        "citations": list(citations),
        "votes": list(votes),
        "disagreement": disagreement,
        "abstentions": list(abstentions),
        "contradicted": contradicted,
        "unjudged": storable(unjudged),
    }
    new = insert(Judged).values(id=uuid.uuid4(), trace_id=trace_id, judge=judge, rubric=rubric, **said)
    await session.execute(
        new.on_conflict_do_update(
            index_elements=[Judged.trace_id, Judged.judge, Judged.rubric],
            set_={**said, "judged_at": func.now()},
            where=_replaceable(unjudged, late),
        )
    )


async def _race_is_over(session: AsyncSession, trace_id: uuid.UUID) -> bool:
    """Whether it is, with the race kept from ending before this transaction does."""
    state = await session.scalar(
        select(Race.state)
        .join(Episode, Episode.race_id == Race.id)
        .join(Trace, Trace.episode_id == Episode.id)
        .where(Trace.id == trace_id)
        .with_for_update(of=Race, read=True, key_share=True)
    )
    return state in ("settled", "void")


def _replaceable(unjudged: str | None, late: bool) -> ColumnElement[bool]:
    """Which stored rows a new one may replace."""
    if unjudged is not None:
        return Judged.unjudged.is_not(None)
    return or_(Judged.unjudged.is_not(None), Judged.late) if late else true()


async def attached(
    session: AsyncSession, trace_ids: Sequence[uuid.UUID], *, judge: str | None, rubric: str | None
) -> dict[uuid.UUID, StoredJudgement]:
    """Of each trace that has any, the judgement that counts in its race, else the newest answered one, else
    the newest attempt: judging again for comparison changes nothing in what is exported or trained on.

    With `judge` or `rubric`, only theirs count.
    """
    in_force = and_(Judged.judge == Race.judge, Judged.rubric == Race.rubric)
    statement = (
        select(Judged)
        .join(Trace, Trace.id == Judged.trace_id)
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .where(Judged.trace_id.in_(trace_ids))
    )
    if judge is not None:
        statement = statement.where(Judged.judge == judge)
    if rubric is not None:
        statement = statement.where(Judged.rubric == rubric)
    statement = statement.order_by(
        Judged.unjudged.is_not(None), in_force.desc().nulls_last(), Judged.judged_at.desc(), Judged.id
    )
    chosen: dict[uuid.UUID, StoredJudgement] = {}
    for row in (await session.scalars(statement)).all():
        if row.trace_id not in chosen:
            chosen[row.trace_id] = _stored(row)
    return chosen


def storable(text: str | None) -> str | None:
    """`text` for a text column: NUL becomes U+2400, a lone surrogate U+FFFD."""
    return None if text is None else text.translate(_UNSTORABLE)


def stored_events(stored: list[Any]) -> tuple[Event, ...]:
    """Events as a trace's row holds them."""
    return tuple(Event.from_json(value) for value in stored)


def _stored(row: Judged) -> StoredJudgement:
    return StoredJudgement(
        judge=row.judge,
        rubric=row.rubric,
        grade=row.grade,
        gate=row.gate,
        rationale=row.rationale,
        citations=tuple(row.citations),
        votes=tuple(row.votes),
        disagreement=row.disagreement,
        unjudged=row.unjudged,
        abstentions=tuple(row.abstentions or ()),
        contradicted=row.contradicted,
        late=row.late,
    )
