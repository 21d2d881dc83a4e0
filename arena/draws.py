"""The hidden draw of a race, from what is stored: the pool, what was exposed before, and the block's hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.rules import Rules
from arena.suites import answered
from problems.problem import AnsweredProblem
from problems.rotation import Candidate, draw
from storage.tables import Exposure, Race, Suite, SuiteProblem


async def draw_problems(session: AsyncSession, race: Race, *, block_hash: str, rules: Rules) -> list[str]:
    """The problem ids that `race` is run on, in order of play. Raises PoolTooSmall.

    Clusters that agents met before, in this race's qualifying too, come only where others run out.
    """
    pool = await session.get_one(Suite, race.pool_suite_id)
    rows = (
        await session.scalars(
            select(SuiteProblem).where(SuiteProblem.suite_id == pool.id).order_by(SuiteProblem.position)
        )
    ).all()
    exposed = await session.scalars(
        select(Exposure.cluster_id)
        .join(Race, Race.id == Exposure.race_id)
        .where(Race.number <= race.number)
        .distinct()
    )
    return draw_among(
        [answered(row) for row in rows],
        {row.problem_id: row.cluster_id for row in rows},
        root=pool.root,
        race_number=race.number,
        block_hash=block_hash,
        exposed=frozenset(exposed),
        rules=rules,
    )


def draw_among(
    pool: Iterable[AnsweredProblem],
    clusters: Mapping[str, str],
    *,
    root: str,
    race_number: int,
    block_hash: str,
    exposed: frozenset[str],
    rules: Rules,
) -> list[str]:
    """The same as a pure function, of the pool and of the cluster of each of its problems."""
    return draw(
        [Candidate(p.problem.problem_id, p.problem.category, clusters[p.problem.problem_id]) for p in pool],
        root=root,
        race_number=race_number,
        block_hash=block_hash,
        size=rules.drawn_size,
        exposed=exposed,
        quota=rules.quota or None,
    )
