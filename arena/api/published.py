"""What of a race the embargo lets everybody see.

`arena.embargo` says when a source is public: after its first race. The traces of a race are public after that
race's own embargo; and, as they show what an agent is, only of agents whose source may be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.embargo import Held, public_at
from arena.rules import Rules
from storage.tables import Race


@dataclass(frozen=True, slots=True)
class _AnyAgent:
    state: str = "accepted"


@dataclass(frozen=True, slots=True)
class _Settled:
    """What of a settled race its embargo depends on: there are many, and their rules are long."""

    settled_at: datetime | None
    rules: Mapping[str, Any]
    state: str = "settled"


def race_public_at(race: Held, rules: Rules) -> datetime | None:
    """When a race's traces become public, and all its agents' sources are; None while it has not settled."""
    return public_at(_AnyAgent(), [race], rules)


async def public_races(session: AsyncSession, rules: Rules, now: datetime) -> dict[UUID, int]:
    """The races whose embargo is over, with their numbers."""
    rows = await session.execute(
        select(Race.id, Race.number, Race.settled_at, Race.rules["embargo_h"].as_float()).where(
            Race.state == "settled", Race.settled_at <= now
        )
    )
    found: dict[UUID, int] = {}
    for race_id, number, settled_at, embargo_h in rows:
        race = _Settled(settled_at, {} if embargo_h is None else {"embargo_h": embargo_h})
        at = race_public_at(race, rules)
        if at is not None and at <= now:
            found[race_id] = number
    return found
