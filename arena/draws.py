"""The hidden draw of a race, from what is stored: the pool, what was exposed before, and the block's hash."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.rules import Rules
from problems.rotation import Candidate, draw
from storage.tables import Exposure, Race, Suite, SuiteProblem


async def draw_problems(session: AsyncSession, race: Race, *, block_hash: str, rules: Rules) -> list[str]:
    """The problem ids that `race` is run on, in order of play. Raises PoolTooSmall.

    Clusters that agents met before, in this race's qualifying too, come only where others run out.
    """
    pool = await session.get_one(Suite, race.pool_suite_id)
    rows = await session.execute(
        select(SuiteProblem.problem_id, SuiteProblem.category, SuiteProblem.cluster_id)
        .where(SuiteProblem.suite_id == pool.id)
        .order_by(SuiteProblem.position)
    )
    exposed = await session.scalars(
        select(Exposure.cluster_id)
        .join(Race, Race.id == Exposure.race_id)
        .where(Race.number <= race.number)
        .distinct()
    )
    return draw(
        [Candidate(*row) for row in rows],
        root=pool.root,
        race_number=race.number,
        block_hash=block_hash,
        size=rules.drawn_size,
        exposed=frozenset(exposed),
        quota=rules.quota or None,
    )
