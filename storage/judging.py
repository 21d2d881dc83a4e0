"""The work on judgements: traces are claimed, judged while the claim is renewed, and put down with an answer.

The one thing to know: a claim ends by itself. Whoever dies with one, or loses the database for as long, has
lost it, and what they say of it afterwards is refused; so any number of workers judge each trace once, and
none is lost. All times are the database's, because the clocks of hosts differ.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg
from sqlalchemy import ColumnElement, and_, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from storage.database import Database
from storage.events import Event
from storage.judgements import stored_events
from storage.tables import Episode, Judged, Judging, Race, Trace

_log = logging.getLogger(__name__)

CHANNEL = "arena_trace"
"""Where a trace that waits for a judge is told of, by its id."""
_LINE_UP = 512
_LISTEN_CHECK_S = 60.0
_LISTEN_RETRY_S = 5.0
_LISTEN_DEADLINE_S = 10.0


STILL_JUDGED = timedelta(days=2)
"""A trace that was left out of its race for want of a judgement may still be good to train on, for a while:
looking for work in all races that ever were would cost more each day."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which traces a judge may take up.

    `in_force`: of the races that this judge and rubric count in, until `STILL_JUDGED` after they are over.
    Otherwise of every race, or of `race_id`, for comparison.
    """

    in_force: bool = True
    race_id: uuid.UUID | None = None


IN_FORCE = Scope()
"""Where a judge counts."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A trace that is the claimant's to judge. `attempt` counts from 1, over all workers."""

    trace_id: uuid.UUID
    judge: str
    rubric: str
    claimant: uuid.UUID
    attempt: int
    events: tuple[Event, ...]


async def claim(
    session: AsyncSession,
    *,
    judge: str,
    rubric: str,
    claimant: uuid.UUID,
    hold_s: float,
    limit: int,
    scope: Scope = IN_FORCE,
) -> list[Claim]:
    """Take up at most `limit` traces that wait for an answer of this judge by this rubric.

    Those never tried come first, then those that have been due longest, so that a trace which the judge
    cannot answer does not hold up the rest. Claimants never wait for one another.
    """
    held = _Holder(judge, rubric, claimant, hold_s, scope)
    taken = await _take(session, held, limit, Judging.attempts == 0)
    if len(taken) < limit and await _line_up(session, held):
        taken += await _take(session, held, limit - len(taken), Judging.attempts == 0)
    if len(taken) < limit:
        others = Judging.trace_id.not_in([trace_id for trace_id, _ in taken])
        taken += await _take(session, held, limit - len(taken), and_(Judging.attempts > 0, others))
    if not taken:
        return []
    rows = await session.execute(
        select(Trace.id, Trace.events).where(Trace.id.in_([id_ for id_, _ in taken]))
    )
    events = {row.id: row.events for row in rows}
    return [
        Claim(trace_id, judge, rubric, claimant, attempt, stored_events(events[trace_id]))
        for trace_id, attempt in taken
    ]


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who claims, for which judge, how long, and of which traces."""

    judge: str
    rubric: str
    claimant: uuid.UUID
    hold_s: float
    scope: Scope


async def _line_up(session: AsyncSession, held: _Holder) -> bool:
    """Enter traces that nobody has worked on yet, the oldest first; whether there are any.

    Finding them means looking through whole races, so that many are entered at once.
    """
    found = (
        select(
            Trace.id, literal(held.judge), literal(held.rubric), literal(0), literal(value=True), func.now()
        )
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .outerjoin(Judging, _work_of(held.judge, held.rubric, Trace.id))
        .where(*_lacks_answer(held.judge, held.rubric, held.scope), Judging.trace_id.is_(None))
        .order_by(Trace.recorded_at, Trace.id)
        .limit(_LINE_UP)
    )
    entered = await session.execute(
        insert(Judging)
        .from_select(["trace_id", "judge", "rubric", "attempts", "waiting", "not_before"], found)
        .on_conflict_do_nothing()
        .returning(Judging.trace_id)
    )
    return bool(entered.all())


async def _take(
    session: AsyncSession, held: _Holder, limit: int, which: ColumnElement[bool]
) -> list[tuple[uuid.UUID, int]]:
    """Claim at most `limit` of the lined up: the trace and the number of the attempt, in their order."""
    found = (
        select(Judging.trace_id)
        .join(Trace, Trace.id == Judging.trace_id)
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .where(Judging.judge == held.judge, Judging.rubric == held.rubric, _free(), which)
        .where(*_lacks_answer(held.judge, held.rubric, held.scope))
        .order_by(Judging.not_before, Trace.recorded_at, Trace.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=Judging)
    )
    trace_ids = list(await session.scalars(found))
    if not trace_ids:
        return []
    taken = await session.execute(
        update(Judging)
        .where(Judging.judge == held.judge, Judging.rubric == held.rubric)
        .where(Judging.trace_id.in_(trace_ids))
        .values(
            attempts=Judging.attempts + 1,
            claimed_by=held.claimant,
            claimed_until=func.now() + timedelta(seconds=held.hold_s),
        )
        .returning(Judging.trace_id, Judging.attempts)
        .execution_options(synchronize_session=False)
    )
    attempts = {row.trace_id: row.attempts for row in taken}
    return [(trace_id, attempts[trace_id]) for trace_id in trace_ids]


async def renew(session: AsyncSession, claims: Collection[Claim], *, hold_s: float) -> None:
    """Hold `claims` for `hold_s` from now; those that were lost stay lost."""
    for held in sorted(claims, key=lambda claim: claim.trace_id):
        await session.execute(
            update(Judging).where(*_ours(held)).values(claimed_until=func.now() + timedelta(seconds=hold_s))
        )


async def release(session: AsyncSession, claims: Collection[Claim]) -> None:
    """Give up claims without an answer, for a worker that stops: the attempts do not count."""
    for held in sorted(claims, key=lambda claim: claim.trace_id):
        await session.execute(
            update(Judging)
            .where(*_ours(held))
            .values(attempts=Judging.attempts - 1, claimed_by=None, claimed_until=None)
        )


async def put_down(session: AsyncSession, held: Claim, *, retry_in_s: float | None) -> bool:
    """End a claim, in the transaction that stores what the judge said; None: it is not tried again.

    False when the claim was lost: then nothing may be stored.
    """
    ended = await session.execute(
        update(Judging)
        .where(*_ours(held))
        .values(
            waiting=retry_in_s is not None,
            not_before=func.now() + timedelta(seconds=retry_in_s or 0.0),
            claimed_by=None,
            claimed_until=None,
        )
        .returning(Judging.trace_id)
    )
    return ended.scalar_one_or_none() is not None


async def lacking(session: AsyncSession, *, judge: str, rubric: str, scope: Scope) -> int:
    """How many traces lack an answer of this judge by this rubric, those given up on too."""
    count = (
        select(func.count(Trace.id))
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .where(*_lacks_answer(judge, rubric, scope))
    )
    return await session.scalar(count) or 0


async def reopen(session: AsyncSession, *, judge: str, rubric: str, scope: Scope) -> None:
    """Have what rests, or was given up, tried again from now on, as if for the first time."""
    again = (
        select(Trace.id)
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .where(*_lacks_answer(judge, rubric, scope))
    )
    await session.execute(
        update(Judging)
        .where(Judging.judge == judge, Judging.rubric == rubric, Judging.trace_id.in_(again))
        .where(or_(Judging.claimed_until.is_(None), Judging.claimed_until <= func.now()))
        .values(waiting=True, attempts=0, not_before=func.now())
        .execution_options(synchronize_session=False)
    )


async def announce(session: AsyncSession, trace_id: uuid.UUID) -> None:
    """Tell whoever listens that a trace waits, once the transaction commits."""
    await session.execute(select(func.pg_notify(CHANNEL, str(trace_id))))


async def listen(database: Database, heard: asyncio.Event) -> None:
    """Set `heard` whenever a trace is announced, until cancelled.

    It is set after each new connection too, because something may have been missed. Where nothing can be
    heard (a pooler in between, say), a warning is logged and the caller's own looking must do.
    """
    warned = False
    while True:
        try:
            await _listen_once(database, heard)
        except (
            SQLAlchemyError,
            OSError,
            TimeoutError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
        ) as error:
            if not warned:
                _log.warning("not told of new traces, looking for them instead: %s", error)
            warned = True
        await asyncio.sleep(_LISTEN_RETRY_S)


async def _listen_once(database: Database, heard: asyncio.Event) -> None:
    gone = asyncio.Event()

    def on_notify(*_: object) -> None:
        heard.set()

    def on_end(_: object) -> None:
        gone.set()

    async with database.engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        try:
            async with asyncio.timeout(_LISTEN_DEADLINE_S):
                await driver.add_listener(CHANNEL, on_notify)
            driver.add_termination_listener(on_end)
            heard.set()
            while not gone.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LISTEN_CHECK_S):
                        await gone.wait()
                if not gone.is_set():
                    await driver.execute("SELECT 1", timeout=_LISTEN_DEADLINE_S)
        finally:
            await connection.invalidate()  # or the pool would lend out a connection that still listens


def _work_of(judge: str, rubric: str, trace_id: ColumnElement[uuid.UUID] | Any) -> ColumnElement[bool]:
    return and_(Judging.trace_id == trace_id, Judging.judge == judge, Judging.rubric == rubric)


def _free() -> ColumnElement[bool]:
    return and_(
        Judging.waiting,
        Judging.not_before <= func.now(),
        or_(Judging.claimed_until.is_(None), Judging.claimed_until <= func.now()),
    )


def _lacks_answer(judge: str, rubric: str, scope: Scope) -> list[ColumnElement[bool]]:
    """Final traces that were scored, within `scope`, without a grade by this judge and rubric.

    For a query that joins traces with their episodes and races.
    """
    answered = (
        select(literal(1))
        .where(Judged.trace_id == Trace.id, Judged.judge == judge, Judged.rubric == rubric)
        .where(Judged.grade.is_not(None))
        .exists()
    )
    conditions = [Trace.final.is_(True), Trace.verdict != "unscored", ~answered]
    if scope.in_force:
        conditions += [
            or_(Race.judge.is_(None), and_(Race.judge == judge, Race.rubric == rubric)),
            or_(Race.settled_at.is_(None), Race.settled_at > func.now() - STILL_JUDGED),
        ]
    if scope.race_id is not None:
        conditions.append(Race.id == scope.race_id)
    return conditions


def _ours(held: Claim) -> list[ColumnElement[bool]]:
    return [
        _work_of(held.judge, held.rubric, held.trace_id),
        Judging.claimed_by == held.claimant,
        Judging.attempts == held.attempt,
    ]
