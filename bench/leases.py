"""Leases per second that 1, 4 and 16 workers take from a queue, beside a bare `FOR UPDATE SKIP LOCKED` loop.

A worker takes a lease and ends it in one transaction, as one that plays in no time. The bare loop does so
with rows of a plain table, in the same order, by the driver alone: without fences, expiry, or an object.
Both run in turn on one embedded server, with as many connections as there are workers, in one process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
from sqlalchemy import text, update

from arena import queue
from arena.rules import Rules
from bench.figures import Figure, main
from storage.database import Database
from storage.tables import Episode, Race, Submission, Suite

WORKERS = (1, 4, 16)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_BARE = (
    "CREATE TABLE bare (id bigint PRIMARY KEY, state text NOT NULL, position int NOT NULL)",
    "CREATE INDEX ON bare (position, id) WHERE state <> 'done'",
)
_TAKE = """UPDATE bare SET state = 'leased' WHERE id = (
    SELECT id FROM bare WHERE state = 'queued' AND state <> 'done'
    ORDER BY position, id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id"""
_END = "UPDATE bare SET state = 'done' WHERE id = $1"


def measure(quick: bool) -> Sequence[Figure]:
    """Leases a second."""
    return asyncio.run(_measure(400 if quick else 4000))


async def _measure(leases: int) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as name:
        folder = Path(name)
        await asyncio.to_thread(folder.chmod, 0o755)  # the database's own user passes through it
        async with Database.open(None, folder, pool_size=max(WORKERS)) as database:
            await database.migrate()
            await _fill(database, leases * len(WORKERS) * 2)
            for workers in WORKERS:
                bare = await _bare_rate(database, workers, leases)
                figures.append(
                    Figure(
                        f"leases a second, {workers} worker{'s' * (workers > 1)}",
                        await _rate(database, workers, leases),
                        "1/s",
                        baseline=bare,
                    )
                )
    return figures


async def _fill(database: Database, rows: int) -> None:
    rules = Rules()
    async with database.session() as session:
        for statement in _BARE:
            await session.execute(text(statement))
        await session.execute(
            text("INSERT INTO bare SELECT i, 'queued', i FROM generate_series(1, :rows) AS i"), {"rows": rows}
        )
        submission = Submission(hotkey="h", source_sha256="", source=b"", name="n", state="accepted")
        suite = Suite(id="s", name="s", role="pool", environment="none", catalog_id="c", scorer="t", root="r")
        session.add_all([submission, suite])
        await session.flush()
        race = Race(
            number=1,
            rules=rules.model_dump(mode="json"),
            rules_hash=rules.rules_hash,
            public_suite_id="s",
            pool_suite_id="s",
            opened_at=NOW,
        )
        session.add(race)
        await session.flush()
        session.add_all(
            Episode(
                race_id=race.id,
                phase="race",
                submission_id=submission.id,
                suite_id="s",
                problem_id=f"p{i}",
                seed=i,
                position=i,
                not_before=NOW,
            )
            for i in range(rows)
        )
    async with database.engine.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("ANALYZE"))


async def _rate(database: Database, workers: int, leases: int) -> float:
    async def one() -> None:
        async with database.session() as session:
            leased = await queue.lease(session, worker="w", now=NOW, lease_s=1e9)
            if leased is None:
                raise RuntimeError("the queue ran dry")
            await session.execute(update(Episode).where(Episode.id == leased.episode_id).values(state="done"))

    return await _timed([one] * workers, leases)


async def _bare_rate(database: Database, workers: int, leases: int) -> float:
    url = database.engine.url
    connections = [
        await asyncpg.connect(
            user=url.username, database=url.database, host=url.query["host"], timeout=10, command_timeout=60
        )
        for _ in range(workers)
    ]

    def loop(connection: asyncpg.Connection) -> Callable[[], Awaitable[None]]:
        async def one() -> None:
            async with connection.transaction():
                taken = await connection.fetchval(_TAKE)
                if taken is None:
                    raise RuntimeError("the queue ran dry")
                await connection.execute(_END, taken)

        return one

    try:
        return await _timed([loop(connection) for connection in connections], leases)
    finally:
        for connection in connections:
            await connection.close(timeout=10)


async def _timed(workers: Sequence[Callable[[], Awaitable[None]]], leases: int) -> float:
    """Calls a second, when each of the workers makes its share of `leases` calls, all at the same time."""

    async def work(one: Callable[[], Awaitable[None]], calls: int) -> None:
        for _ in range(calls):
            await one()

    each = leases // len(workers)
    for one in workers:
        await one()  # connects, prepares
    began = time.perf_counter()
    await asyncio.gather(*(work(one, each) for one in workers))
    return each * len(workers) / (time.perf_counter() - began)


if __name__ == "__main__":
    main(measure)
