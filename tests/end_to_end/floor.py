"""An arena floor for tests: a small generated world, real sandbox and recorder, a worker and a race engine.

Everything is the program's own but the chain, of which a race needs only the blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from arena import queue, samples
from arena.player import SandboxedPlayer
from arena.races import RaceEngine
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Sandbox
from arena.scripted_shopper.server import MODELS
from arena.suites import store_suite
from arena.worker import Worker
from distill.filters import FilterConfig, accepts
from judge.grounded import GroundedJudge
from judge.worker import judge_pending
from neurons.host import claimed_slots, socket_root
from problems.shopping.world import World
from storage.database import Database
from storage.tables import Race, Submission
from storage.traces import StoredTrace, TraceQuery, stream

SLOTS = 2
DEADLINE_S = 240.0

RULES = Rules.load(
    {
        "public_size": 2,
        "drawn_size": 3,
        "entry_share": 0.0,
        "max_attempts": 2,
        "retry_backoff_s": 0.05,
        "outage_after": 1000,
        "judge_pause_s": 0,
        "sandbox": {"wall_s": 60},
    }
)


def now() -> datetime:
    return datetime.now(UTC)


class Blocks:
    """A chain with a block at any time asked for."""

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str]:
        number = int(when.timestamp())
        return number, "0x" + hashlib.sha256(str(number).encode()).hexdigest()


@dataclass
class Floor:
    """Submits samples, plays what is queued, and moves the race forward."""

    database: Database
    world: World
    sandbox: Sandbox
    upstream: Upstream
    sockets: Path
    first_slot: int
    rules: Rules

    def __post_init__(self) -> None:
        judge, filters = GroundedJudge(), FilterConfig()
        self.engine = RaceEngine(
            self.database,
            self.rules,
            clock=now,
            blocks=Blocks(),
            judge=judge.name,
            rubric=judge.rubric,
            judge_pending=lambda: judge_pending(self.database, judge, limit=1000),
            accepts_into_corpus=lambda trace: accepts(trace, filters),
        )

    async def open_race(self, challengers: Sequence[str], *, champion: str | None = None) -> UUID:
        """A race with these samples in it, queued to qualify."""
        public = await store_suite(self.database, self.world.public, "public")
        pool = await store_suite(self.database, self.world.pool, "pool")
        founding = None if champion is None else await self._submit(champion)
        entrants = [await self._submit(name) for name in challengers]
        race_id = await self.engine.open_race(public, pool, founding_champion=founding)
        await self.engine.enter(race_id, entrants)
        return race_id

    async def play(self, race_id: UUID, phase: str) -> None:
        """Let a worker play until no episode of the phase is left."""
        environments = dict.fromkeys(
            (self.world.public.suite_id, self.world.pool.suite_id), self.world.environment
        )
        player = SandboxedPlayer(
            environments, self.sandbox, self.upstream, socket_root=self.sockets, first_slot=self.first_slot
        )
        worker = Worker(self.database, player, self.rules, name="w", slots=SLOTS, clock=now)
        stop = asyncio.Event()
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            group.create_task(worker.run(stop))
            while await self._unfinished(race_id, phase):  # noqa: ASYNC110 - a table sends no event
                await asyncio.sleep(0.05)
            stop.set()

    async def advance(self, race_id: UUID, *, times: int) -> str:
        """Move the race forward so often; returns the state it is then in."""
        for _ in range(times - 1):
            await self.engine.advance(race_id)
        return await self.engine.advance(race_id)

    async def race(self, race_id: UUID) -> Race:
        async with self.database.session() as session:
            return await session.get_one(Race, race_id)

    async def traces(self, race_id: UUID) -> list[StoredTrace]:
        """Every stored attempt, final or not."""
        return [t async for t in stream(self.database, TraceQuery(race_id=race_id, final_only=False))]

    async def _unfinished(self, race_id: UUID, phase: str) -> int:
        async with self.database.session() as session:
            return await queue.unfinished(session, race_id, phase)

    async def _submit(self, sample: str) -> UUID:
        source = samples.source(sample)
        async with self.database.session() as session:
            submission = Submission(
                hotkey=f"hotkey of {sample}",
                source_sha256=hashlib.sha256(source).hexdigest(),
                source=source,
                name=sample,
                state="accepted",
                submitted_at=now(),
            )
            session.add(submission)
            await session.flush()
            return submission.id


@contextlib.asynccontextmanager
async def floor(
    database: Database, world: World, sandbox: Sandbox, base_url: str, *, rules: Rules = RULES
) -> AsyncIterator[Floor]:
    """A floor whose model is at `base_url`. The recorder asks once a call: here retries are the queue's."""
    upstream = Upstream(base_url, None, tuple(MODELS), timeout_s=30, retries=0)
    with socket_root() as sockets, claimed_slots(SLOTS) as first_slot:
        try:
            yield Floor(database, world, sandbox, upstream, sockets, first_slot, rules)
        finally:
            await upstream.aclose()
