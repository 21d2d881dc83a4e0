"""What of a race the embargo lets everybody see.

`arena.embargo` says when a source is public: after its first race. The traces of a race are public after that
race's own embargo; and, as they show what an agent is, only of agents whose source may be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from arena.embargo import Held, public_at
from arena.rules import Rules
from storage.tables import Race


@dataclass(frozen=True, slots=True)
class _AnyAgent:
    state: str = "accepted"


def race_public_at(race: Held, rules: Rules) -> datetime | None:
    """When a race's traces become public, and all its agents' sources are; None while it has not settled."""
    return public_at(_AnyAgent(), [race], rules)


async def public_races(session: AsyncSession, rules: Rules, now: datetime) -> dict[UUID, int]:
    """The races whose embargo is over, with their numbers."""
    settled = await session.scalars(
        select(Race)
        .options(load_only(Race.number, Race.state, Race.settled_at, Race.rules))
        .where(Race.state == "settled", Race.settled_at <= now)
    )
    return {
        race.id: race.number
        for race in settled
        if (at := race_public_at(race, rules)) is not None and at <= now
    }
