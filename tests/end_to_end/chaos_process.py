"""A worker or an engine as a process of its own, which may be killed at any time.

`python -m tests.end_to_end.chaos_process worker|engine|provider DATABASE_URL MODEL_URL`. All run until they
are killed. What goes down for a while is waited for; what cannot be had at the start ends the process, and
whoever started it starts it again. A worker that is sent SIGUSR1 loses the next connection of a recorder, as
if the recorder alone had died.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from arena.player import SandboxedPlayer
from arena.races import OVER, RaceEngine
from arena.recorder.upstream import Upstream
from arena.recorder.wire import CONNECTION
from arena.rules import Rules
from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.staging import stage
from arena.worker import Worker
from distill.filters import FilterConfig, accepts
from judge.evidence import Evidence
from judge.judgement import Judgement
from judge.worker import JudgeWorker, Pace
from neurons.host import claimed_slots, socket_root
from storage.database import Database
from storage.tables import Race, Suite
from tests.arena.ledger import Ledger
from tests.arena.puppet import KEY, Puppet
from tests.arena.sums import Blocks

SLOTS = 2
RULES = Rules.load(
    {
        "public_size": 4,
        "drawn_size": 24,
        "entry_share": 0.0,
        "lease_s": 3.0,
        "heartbeat_s": 0.5,
        "max_attempts": 60,
        "max_leases": 200,
        "retry_backoff_s": 0.1,
        "retry_backoff_max_s": 1.0,
        "outage_pause_s": 0.1,
        "outage_pause_max_s": 0.5,
        "judge_pause_s": 0.2,
        "sandbox": {"wall_s": 20},
    }
)
_LOOK_S = 0.1
_GLANCE_S = 0.002


class ReasonsCount:
    """A judge outside the program, as a model is: it grades by how much of the sum was shown."""

    name = "reasons"
    rubric = "reasons-1"

    async def judge(self, evidence: Evidence) -> Judgement:
        """0.9 for a sum that was shown, 0.5 for an answer without one."""
        shown = b" plus " in evidence.to_bytes()
        return Judgement(
            grade=0.9 if shown else 0.5,
            gate="shown",
            rationale="it counts",
            citations=(),
            votes=(),
            disagreement=0.0,
            rubric=self.rubric,
            judge=self.name,
        )


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def engine_on(database: Database, worker: JudgeWorker) -> RaceEngine:
    """The engine of every process: they must agree in all of it."""
    return RaceEngine(
        database,
        RULES,
        clock=now,
        blocks=Blocks(),
        judge=ReasonsCount.name,
        rubric=ReasonsCount.rubric,
        judge_pending=worker.drain,
        accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
    )


def judging(database: Database) -> JudgeWorker:
    """The judge's worker, with claims that end soon after its death."""
    return JudgeWorker(database, ReasonsCount(), pace=Pace(hold_s=2.0, poll_s=0.2))


async def break_a_recorder() -> None:
    """End the task that serves the next request of any agent here, in the middle of it."""
    for _ in range(1_000):
        serving = [task for task in asyncio.all_tasks() if task.get_name() == CONNECTION]
        if serving:
            serving[0].cancel()
            return
        await asyncio.sleep(_GLANCE_S)


async def work(url: str, model_url: str) -> None:
    """Play episodes in the real sandbox, for ever."""
    breaking: set[asyncio.Task[None]] = set()
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGUSR1, lambda: breaking.add(asyncio.create_task(break_a_recorder()))
    )
    upstream = Upstream(model_url, SecretStr(KEY), ("m",), timeout_s=5, retries=0)
    sandbox = BubblewrapSandbox(stage(), Path(shutil.which("bwrap") or "bwrap"))
    async with Database.open(url, Path(), pool_size=SLOTS) as database:
        async with database.session() as session:
            environments = dict.fromkeys((await session.scalars(select(Suite.id))).all(), Ledger())
        with socket_root() as sockets, claimed_slots(SLOTS) as first_slot:
            player = SandboxedPlayer(
                environments, sandbox, upstream, socket_root=sockets, first_slot=first_slot
            )
            worker = Worker(database, player, RULES, name=f"worker {os.getpid()}", slots=SLOTS, clock=now)
            await worker.run(asyncio.Event())


async def drive(url: str, _: str) -> None:
    """Judge, and move the race forward, for ever."""
    async with Database.open(url, Path(), pool_size=4) as database:
        engine = engine_on(database, judging(database))
        while True:
            try:
                async with database.session() as session:
                    open_ones = await session.scalars(select(Race.id).where(Race.state.not_in(OVER)))
                    race_ids = open_ones.all()
                for race_id in race_ids:
                    await engine.advance(race_id)
            except (SQLAlchemyError, OSError, TimeoutError) as error:
                print(f"cannot go on now: {error}", file=sys.stderr)
            await asyncio.sleep(_LOOK_S)


async def provide(_: str, model_url: str) -> None:
    """Serve the model on the port of `model_url`, for ever."""
    with Puppet(urlsplit(model_url).port or 0):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"worker": work, "engine": drive, "provider": provide}[sys.argv[1]](*sys.argv[2:]))
