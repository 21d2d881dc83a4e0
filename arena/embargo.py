"""When a source becomes public: `embargo_h` after the first race it was in has settled.

The first, because an agent goes on from race to race, and a champion is always in one. What is public once
stays public. A race that was void is none: nothing was decided by it. A submission that was superseded as a
copy never becomes public, as it would show what it was copied from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from arena.rules import Rules
from storage.tables import Entrant, Race, Submission


class Sent(Protocol):
    """What of a submission the embargo depends on: a `tables.Submission`."""

    @property
    def state(self) -> str:
        """received, accepted or refused."""


class Held(Protocol):
    """What of a race the embargo depends on: a `tables.Race`."""

    @property
    def state(self) -> str:
        """As in `tables.Race`."""

    @property
    def settled_at(self) -> datetime | None:
        """When it settled, or was found void."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules it was opened with."""


def public_at(submission: Sent, races: Iterable[Held], rules: Rules) -> datetime | None:
    """When the submission's source becomes public, or None while that is not known.

    `races` are those it is or was an entrant of, whether it qualified or not. Each race's embargo is that of
    its own rules; `rules` speak for races that were opened before there was one.
    """
    if submission.state != "accepted":
        return None
    ends = [
        race.settled_at + timedelta(hours=race.rules.get("embargo_h", rules.embargo_h))
        for race in races
        if race.state == "settled" and race.settled_at is not None
    ]
    return min(ends, default=None)


def is_public(submission: Sent, races: Iterable[Held], rules: Rules, now: datetime) -> bool:
    """Whether the submission's source is public at `now`."""
    at = public_at(submission, races, rules)
    return at is not None and at <= now


async def races_of(session: AsyncSession, submissions: Collection[UUID]) -> dict[UUID, list[Race]]:
    """The races that each of the submissions is an entrant of, with what `public_at` needs of them."""
    found: dict[UUID, list[Race]] = {id: [] for id in submissions}
    rows = await session.execute(
        select(Entrant.submission_id, Race)
        .join(Race, Race.id == Entrant.race_id)
        .options(load_only(Race.number, Race.state, Race.settled_at, Race.rules))
        .where(Entrant.submission_id.in_(found))
        .order_by(Race.number)
    )
    for submission_id, race in rows:
        found[submission_id].append(race)
    return found


async def public_among(
    session: AsyncSession, submissions: Collection[Submission], rules: Rules, now: datetime
) -> set[UUID]:
    """Which of the submissions are public at `now`."""
    races = await races_of(session, [s.id for s in submissions])
    return {s.id for s in submissions if is_public(s, races[s.id], rules, now)}
