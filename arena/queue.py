"""The episodes as a queue of leases in PostgreSQL.

Any number of workers on any number of hosts take episodes from one table. A lease that is not renewed expires
and the episode goes to somebody else; its fence is raised with every lease, and whoever comes back with an
older fence can write nothing. A result and the end of its lease are one transaction, so that no episode is
stored twice or lost, whenever a process dies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, any_, func, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from arena.rules import Rules
from arena.verdict import Unscored, Verdict, row_of
from storage import traces
from storage.events import Event
from storage.tables import Episode, Race

LOST = "lost"
"""Reason of an episode whose workers died with it as often as the rules allow."""


@dataclass(frozen=True, slots=True)
class Leased:
    """An episode that is ours to play until the lease expires. `attempt` counts from 1."""

    episode_id: UUID
    fence: int
    attempt: int
    race_id: UUID
    phase: str
    submission_id: UUID
    suite_id: str
    problem_id: str
    repeat: int
    seed: int


@dataclass(frozen=True, slots=True)
class Completed:
    """What became of a lease. `retry_at` is set when the episode will be played again."""

    trace_id: UUID
    final: bool
    retry_at: datetime | None


class StaleLease(Exception):
    """The lease was lost: it expired and the episode went to another worker. Its result must be dropped."""


async def lease(
    session: AsyncSession,
    *,
    worker: str,
    now: datetime,
    lease_s: float,
    suites: Collection[str] | None = None,
) -> Leased | None:
    """Take the next episode that may be played at `now`, or None when there is none.

    An episode whose lease has expired counts as waiting; one of a race that is paused or over does not.
    Workers never wait for one another's rows. With `suites`, only episodes of those are taken.
    """
    # An array, so that the few races are looked up once and not joined with the episodes.
    open_races = func.array(
        select(Race.id).where(~Race.paused, Race.state.not_in(("settled", "void"))).scalar_subquery()
    )
    waiting = and_(Episode.state == "queued", Episode.not_before <= now)
    abandoned = and_(Episode.state == "leased", Episode.lease_expires_at <= now)
    found = (
        select(Episode.id)
        .where(or_(waiting, abandoned), Episode.race_id == any_(open_races))
        .where(Episode.state != literal_column("'done'"))  # no parameter: the index's own condition
        .where(*([] if suites is None else [Episode.suite_id.in_(suites)]))
        .order_by(Episode.position, Episode.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    taken = await session.execute(
        update(Episode)
        .where(Episode.id == found)
        .values(
            state="leased",
            fence=Episode.fence + 1,
            leased_by=worker,
            lease_expires_at=now + timedelta(seconds=lease_s),
        )
        .returning(Episode)
        .execution_options(synchronize_session=False)
    )
    episode = taken.scalar_one_or_none()
    return None if episode is None else _leased(episode)


async def heartbeat(session: AsyncSession, leased: Leased, *, now: datetime, lease_s: float) -> None:
    """Renew a lease from `now`. Raises StaleLease when it is no longer ours."""
    renewed = await session.execute(
        update(Episode)
        .where(*_ours(leased))
        .values(lease_expires_at=now + timedelta(seconds=lease_s))
        .returning(Episode.id)
    )
    if renewed.scalar_one_or_none() is None:
        raise StaleLease(f"episode {leased.episode_id} was taken over")


async def release(session: AsyncSession, leased: Leased) -> None:
    """Give an episode back unplayed, for a worker that stops. Without effect when the lease was lost."""
    await session.execute(
        update(Episode).where(*_ours(leased)).values(state="queued", leased_by=None, lease_expires_at=None)
    )


async def complete(
    session: AsyncSession,
    leased: Leased,
    *,
    verdict: Verdict,
    events: Sequence[Event],
    wall_s: float,
    now: datetime,
    rules: Rules,
) -> Completed:
    """Store an attempt and end its lease, in the caller's transaction.

    An Unscored attempt goes back into the queue while the rules allow another; the last one stays Unscored.
    Raises StaleLease, and writes nothing, when the lease is no longer ours.
    """
    exhausted = leased.attempt >= rules.max_attempts or leased.fence >= rules.max_leases
    final = not isinstance(verdict, Unscored) or exhausted
    retry_at = None if final else now + timedelta(seconds=backoff_s(leased.attempt, rules))
    ended: dict[str, Any] = {} if retry_at is None else {"not_before": retry_at}
    stored = await session.execute(
        update(Episode)
        .where(*_ours(leased))
        .values(
            state="done" if final else "queued",
            attempts=leased.attempt,
            leased_by=None,
            lease_expires_at=None,
            **ended,
        )
        .returning(Episode.id)
        .execution_options(synchronize_session=False)
    )
    if stored.scalar_one_or_none() is None:
        raise StaleLease(f"episode {leased.episode_id} was taken over; its result is dropped")
    said = row_of(verdict)
    trace_id = await traces.append(
        session,
        episode_id=leased.episode_id,
        attempt=leased.attempt,
        final=final,
        verdict=said.verdict,
        reason=said.reason,
        outcome=said.outcome,
        events=events,
        wall_s=wall_s,
    )
    return Completed(trace_id, final, retry_at)


async def unfinished(session: AsyncSession, race_id: UUID, phase: str) -> int:
    """How many of a phase's episodes are not done."""
    count = await session.scalar(
        select(func.count()).where(
            Episode.race_id == race_id, Episode.phase == phase, Episode.state != "done"
        )
    )
    return count or 0


def backoff_s(attempts: int, rules: Rules) -> float:
    """Seconds to wait after the `attempts`-th attempt failed by our fault."""
    return min(rules.retry_backoff_max_s, rules.retry_backoff_s * 2.0 ** (attempts - 1))


def _ours(leased: Leased) -> tuple[ColumnElement[bool], ...]:
    return (Episode.id == leased.episode_id, Episode.fence == leased.fence, Episode.state == "leased")


def _leased(episode: Episode) -> Leased:
    return Leased(
        episode_id=episode.id,
        fence=episode.fence,
        attempt=episode.attempts + 1,
        race_id=episode.race_id,
        phase=episode.phase,
        submission_id=episode.submission_id,
        suite_id=episode.suite_id,
        problem_id=episode.problem_id,
        repeat=episode.repeat,
        seed=episode.seed,
    )
