"""Append, stream and judge traces: the only way in and out of the store for what was recorded.

The one thing to know: a trace enters whole and consistent or not at all. Its chain is verified, and its
trajectory, counts and token sums are computed here from its events, so that no caller can store a trajectory
that says something else than the record does.

Events, trajectories, outcomes and votes are stored as `json` text and come back as they were, NUL characters
and all. PostgreSQL's text columns cannot hold NUL or lone surrogates; in the prose kept there (reasons,
rationales) those characters are replaced by visible ones (`storage.judgements.storable`).
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from storage.database import Database
from storage.errors import TraceNotFound, TraceRefused
from storage.events import Event, verify
from storage.judgements import (
    StoredJudgement,
    attached,
    record_judgement,
    storable,
    stored_events,
)
from storage.judging import announce
from storage.tables import Episode, Race, Submission, SuiteProblem, Trace
from storage.trajectory import ModelTurn, counts, to_atif, tokens, turns

__all__ = [
    "VERDICTS",
    "EventsSay",
    "StoredJudgement",
    "StoredTrace",
    "TraceQuery",
    "append",
    "count",
    "find",
    "record_judgement",
    "stream",
    "what_events_say",
]

VERDICTS = ("solved", "failed", "unscored")


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace with the race, agent and problem it belongs to. `problem` is as an agent may see it."""

    trace_id: uuid.UUID
    episode_id: uuid.UUID
    attempt: int
    final: bool
    race_id: uuid.UUID
    race_number: int
    phase: str
    submission_id: uuid.UUID
    hotkey: str
    agent_name: str
    suite_id: str
    problem_id: str
    category: str
    cluster_id: str
    problem: dict[str, Any]
    verdict: str
    reason: str | None
    outcome: dict[str, Any] | None
    events: tuple[Event, ...]
    chain_head: str
    trajectory: dict[str, Any]
    model_emitted: int
    scripted: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float
    recorded_at: datetime
    judgement: StoredJudgement | None


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """Which traces, and which judgement to attach to each. None leaves a question open.

    With `judge` or `rubric`, only their judgements are attached; of several, the one that counts in the
    trace's race, else the newest answered one, else the newest attempt.
    """

    race_id: uuid.UUID | None = None
    phase: str | None = None
    verdicts: tuple[str, ...] | None = None
    submission_id: uuid.UUID | None = None
    suite_id: str | None = None
    final_only: bool = True
    judge: str | None = None
    rubric: str | None = None
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The query as a JSON object, without what it leaves open."""
        given = {
            "race_id": str(self.race_id) if self.race_id else None,
            "phase": self.phase,
            "verdicts": list(self.verdicts) if self.verdicts is not None else None,
            "submission_id": str(self.submission_id) if self.submission_id else None,
            "suite_id": self.suite_id,
            "final_only": self.final_only,
            "judge": self.judge,
            "rubric": self.rubric,
            "limit": self.limit,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class EventsSay:
    """What of a trace follows from its events."""

    chain_head: str
    trajectory: dict[str, Any]
    model_emitted: int
    scripted: int
    prompt_tokens: int
    completion_tokens: int


def what_events_say(events: Sequence[Event]) -> EventsSay:
    """All of a trace that its events decide. Raises BrokenChain when they are not what was recorded. Pure."""
    head, found = verify(events), counts(events)
    usages = [turn.usage for turn in turns(events) if isinstance(turn, ModelTurn)]
    return EventsSay(
        chain_head=head,
        trajectory=to_atif(events).to_json_dict(),
        model_emitted=found.model_emitted,
        scripted=found.scripted,
        prompt_tokens=sum(tokens(usage, "prompt_tokens") for usage in usages),
        completion_tokens=sum(tokens(usage, "completion_tokens") for usage in usages),
    )


async def append(
    session: AsyncSession,
    *,
    episode_id: uuid.UUID,
    attempt: int,
    final: bool,
    verdict: str,
    reason: str | None,
    outcome: Mapping[str, Any] | None,
    events: Sequence[Event],
    wall_s: float,
) -> uuid.UUID:
    """Store one attempt at an episode and return the trace's id. The caller's transaction commits it, and so
    announces it to the judges, when it is final and was scored.

    Raises BrokenChain when the events are not the ones that were recorded, TraceRefused when they are another
    episode's or when verdict, reason and outcome contradict one another, and SQLAlchemy's IntegrityError when
    this attempt is already stored.
    """
    _require_consistent(episode_id, verdict, reason, outcome, events)
    read = what_events_say(events)
    trace = Trace(
        id=uuid.uuid4(),
        episode_id=episode_id,
        attempt=attempt,
        final=final,
        verdict=verdict,
        reason=storable(reason),
        outcome=dict(outcome) if outcome is not None else None,
        events=[event.to_json() for event in events],
        chain_head=read.chain_head,
        trajectory=read.trajectory,
        model_emitted=read.model_emitted,
        scripted=read.scripted,
        prompt_tokens=read.prompt_tokens,
        completion_tokens=read.completion_tokens,
        wall_s=wall_s,
    )
    session.add(trace)
    await session.flush()
    if final and verdict != "unscored":
        await announce(session, trace.id)
    return trace.id


async def stream(database: Database, query: TraceQuery, *, batch: int = 64) -> AsyncIterator[StoredTrace]:
    """The traces of `query`, oldest first, ordered by (recorded_at, id).

    Each `batch` is read in a transaction of its own and pages by key, so that memory is bounded and nothing
    is held open while the caller works. Traces stored meanwhile may or may not appear.
    """
    if batch < 1:
        raise ValueError(f"a batch holds at least one trace, not {batch}")
    after: tuple[datetime, uuid.UUID] | None = None
    left = query.limit
    while left is None or left > 0:
        size = batch if left is None else min(batch, left)
        async with database.session() as session:
            rows = (await session.execute(_page(query, after, size))).all()
            trace_ids = [row[0].id for row in rows]
            judgements = await attached(session, trace_ids, judge=query.judge, rubric=query.rubric)
        for row in rows:
            yield _stored(row, judgements.get(row[0].id))
        if len(rows) < size:
            return
        after = (rows[-1][0].recorded_at, rows[-1][0].id)
        left = None if left is None else left - len(rows)


async def find(database: Database, wanted: uuid.UUID, *, attempt: int | None = None) -> StoredTrace:
    """The trace with this id, or of the episode with this id: of `attempt`, else the one that counts, else
    the latest. Raises TraceNotFound.
    """
    statement = _joined().where(or_(Trace.id == wanted, Trace.episode_id == wanted))
    if attempt is not None:
        statement = statement.where(Trace.attempt == attempt)
    statement = statement.order_by(Trace.final.desc(), Trace.attempt.desc()).limit(1)
    async with database.session() as session:
        row = (await session.execute(statement)).one_or_none()
        if row is None:
            of = "" if attempt is None else f", attempt {attempt}"
            raise TraceNotFound(f"there is no trace and no played episode {wanted}{of} in this store")
        judgements = await attached(session, [row[0].id], judge=None, rubric=None)
    return _stored(row, judgements.get(row[0].id))


async def count(database: Database, query: TraceQuery) -> int:
    """How many traces `stream` gives for `query`."""
    matching = (
        select(Trace.id)
        .join(Episode, Trace.episode_id == Episode.id)
        .where(*_conditions(query))
        .limit(query.limit)
        .subquery()
    )
    async with database.session() as session:
        return await session.scalar(select(func.count()).select_from(matching)) or 0


def _require_consistent(
    episode_id: uuid.UUID,
    verdict: str,
    reason: str | None,
    outcome: Mapping[str, Any] | None,
    events: Sequence[Event],
) -> None:
    if verdict not in VERDICTS:
        raise TraceRefused(f"a verdict is one of {', '.join(VERDICTS)}, not {verdict!r}")
    if verdict == "solved" and (outcome is None or reason is not None):
        raise TraceRefused("a solved trace has an outcome and no reason")
    if verdict != "solved" and not reason:
        raise TraceRefused(f"a trace that is {verdict} says why")
    if verdict == "unscored" and outcome is not None:
        raise TraceRefused("an unscored trace has no outcome: our failure is not a score")
    if verdict != "unscored" and not events:
        raise TraceRefused("a trace without events cannot be scored")
    for event in events:
        if event.kind == "started" and event.body.get("episode_id") != str(episode_id):
            recorded = event.body.get("episode_id")
            raise TraceRefused(f"the events are of episode {recorded}, not of {episode_id}")


def _conditions(query: TraceQuery) -> list[ColumnElement[bool]]:
    """What `query` asks of a trace and its episode."""
    wanted = (
        (Episode.race_id, query.race_id),
        (Episode.phase, query.phase),
        (Episode.submission_id, query.submission_id),
        (Episode.suite_id, query.suite_id),
    )
    conditions: list[ColumnElement[bool]] = [column == value for column, value in wanted if value is not None]
    if query.verdicts is not None:
        conditions.append(Trace.verdict.in_(query.verdicts))
    if query.final_only:
        conditions.append(Trace.final.is_(True))
    return conditions


def _page(
    query: TraceQuery, after: tuple[datetime, uuid.UUID] | None, size: int
) -> Select[Trace, Episode, Race, Submission, SuiteProblem]:
    statement = _joined().where(*_conditions(query)).order_by(Trace.recorded_at, Trace.id).limit(size)
    if after is not None:
        statement = statement.where(tuple_(Trace.recorded_at, Trace.id) > tuple_(*after))
    return statement


def _joined() -> Select[Trace, Episode, Race, Submission, SuiteProblem]:
    problem = and_(SuiteProblem.suite_id == Episode.suite_id, SuiteProblem.problem_id == Episode.problem_id)
    return (
        select(Trace, Episode, Race, Submission, SuiteProblem)
        .join(Episode, Trace.episode_id == Episode.id)
        .join(Race, Episode.race_id == Race.id)
        .join(Submission, Episode.submission_id == Submission.id)
        .join(SuiteProblem, problem)
    )


def _stored(
    row: Row[Trace, Episode, Race, Submission, SuiteProblem], judgement: StoredJudgement | None
) -> StoredTrace:
    trace, episode, race, submission, problem = row
    return StoredTrace(
        trace_id=trace.id,
        episode_id=episode.id,
        attempt=trace.attempt,
        final=trace.final,
        race_id=race.id,
        race_number=race.number,
        phase=episode.phase,
        submission_id=submission.id,
        hotkey=submission.hotkey,
        agent_name=submission.name,
        suite_id=episode.suite_id,
        problem_id=episode.problem_id,
        category=problem.category,
        cluster_id=problem.cluster_id,
        problem=problem.public,
        verdict=trace.verdict,
        reason=trace.reason,
        outcome=trace.outcome,
        events=stored_events(trace.events),
        chain_head=trace.chain_head,
        trajectory=trace.trajectory,
        model_emitted=trace.model_emitted,
        scripted=trace.scripted,
        prompt_tokens=trace.prompt_tokens,
        completion_tokens=trace.completion_tokens,
        wall_s=trace.wall_s,
        recorded_at=trace.recorded_at,
        judgement=judgement,
    )
