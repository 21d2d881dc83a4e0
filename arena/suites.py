"""Suites in the store: their problems, what they commit to, and which problems are variants of one another.

Leak clusters run across suites: a variant of a public problem is no secret in the pool. So storing a suite
clusters its problems together with all that are stored. A new problem may join two clusters that were apart;
the stored rows then follow, and what was exposed of either is exposed of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from sqlalchemy import func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from problems.leak_clusters import leak_clusters
from problems.problem import AnsweredProblem, Problem, ProblemSuite, canonical_json
from storage.database import Database
from storage.provenance import merkle_root
from storage.tables import Exposure, Suite, SuiteProblem

Role = Literal["public", "pool"]

_LOCK = 0x7375697465
"""Key of the advisory lock under which suites are stored: "suite" in ASCII."""


async def keep_suites(session: AsyncSession) -> None:
    """Have no suite stored, and so no cluster joined, until this transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock_shared(_LOCK)))


async def stored_suites(session: AsyncSession) -> list[str]:
    """The ids of all stored suites, sorted: what the clusters of now follow from."""
    return sorted((await session.scalars(select(Suite.id))).all())


async def store_suite(database: Database, suite: ProblemSuite, role: Role) -> str:
    """Store a suite and return its id; without effect when it is stored already.

    Raises ValueError when it is stored in another role, when it is empty, or when one of its problem ids
    stands for another problem in a stored suite.
    """
    if not suite.problems:
        raise ValueError(f"suite {suite.name!r} has no problems")
    suite_id = suite.suite_id  # a hash over all of it, made once
    async with database.session() as session:
        await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        stored = await session.get(Suite, suite_id)
        if stored is not None:
            if stored.role != role:
                raise ValueError(f"suite {suite.name!r} is stored as {stored.role}; it cannot be {role} too")
            return stored.id
        clusters = await _cluster_with_stored(session, suite)
        session.add(
            Suite(
                id=suite_id,
                name=suite.name,
                role=role,
                environment=suite.environment,
                environment_version=suite.environment_version,
                catalog_id=suite.catalog_id,
                scorer=suite.scorer,
                options=suite.options,
                root=suite_root(suite.problems),
            )
        )
        await session.flush()
        session.add_all(
            SuiteProblem(
                suite_id=suite_id,
                problem_id=problem.problem.problem_id,
                position=position,
                category=problem.problem.category,
                cluster_id=clusters[problem.problem.problem_id],
                public=problem.problem.model_dump(mode="json"),
                answer=problem.answer,
                leak_keys=list(problem.leak_keys),
            )
            for position, problem in enumerate(suite.problems)
        )
        return suite_id


def suite_root(problems: Iterable[AnsweredProblem]) -> str:
    """Merkle root (hex) over a suite's problems, answers included, in order.

    Published before a race it commits to the pool; after it, a proof for each drawn problem shows that it was
    in the pool all along.
    """
    return merkle_root([canonical_json(p.model_dump(mode="json")) for p in problems])


def answered(row: SuiteProblem) -> AnsweredProblem:
    """A stored problem with its answer."""
    return AnsweredProblem(
        problem=Problem.model_validate(row.public), answer=row.answer, leak_keys=tuple(row.leak_keys)
    )


async def _cluster_with_stored(session: AsyncSession, suite: ProblemSuite) -> dict[str, str]:
    """Clusters over the new and all stored problems, by problem id; stored rows are brought up to date."""
    rows = (await session.scalars(select(SuiteProblem))).all()
    known = {row.problem_id: answered(row) for row in rows}
    for problem in suite.problems:
        name = problem.problem.problem_id
        if known.setdefault(name, problem) != problem:
            raise ValueError(f"problem id {name!r} already stands for another problem; ids must be unique")
    clusters = leak_clusters(known.values())
    moved = {
        (row.cluster_id, clusters[row.problem_id])
        for row in rows
        if row.cluster_id != clusters[row.problem_id]
    }
    for before, after in sorted(moved):
        await session.execute(
            update(SuiteProblem).where(SuiteProblem.cluster_id == before).values(cluster_id=after)
        )
        exposed = select(Exposure.race_id, literal(after)).where(Exposure.cluster_id == before)
        await session.execute(
            insert(Exposure).from_select(["race_id", "cluster_id"], exposed).on_conflict_do_nothing()
        )
    return clusters
