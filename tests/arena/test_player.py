"""Worker, player, recorder and store together: real agent processes, real sockets, a real endpoint."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from uuid import UUID

import pytest
from sqlalchemy import select

from arena.player import SandboxedPlayer
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.worker import Worker
from storage.database import Database
from storage.events import Event, verify
from storage.tables import Submission, SuiteProblem, Trace
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import say
from tests.arena.stores import Clock, add_episodes
from tests.arena.test_worker import until_done

RULES = Rules.load({"retry_backoff_s": 0, "max_attempts": 2, "max_leases": 4, "sandbox": {"wall_s": 30}})
AGENT = dedent(
    f"""
    def solve(problem, tools, llm):
        llm.chat({say("let me see")!r})
        tools.answer(total=42)
        tools.finish()
    """
).encode()
CRASHING = b"def solve(problem, tools, llm):\n    raise KeyError('my own')\n"


async def ledger_race(database: Database, source: bytes) -> UUID:
    """One queued episode of this agent in the ledger world."""
    race_id = await add_episodes(database, rules=RULES)
    problem = ledger_problem()
    async with database.session() as session:
        submission = (await session.scalars(select(Submission))).one()
        submission.source = source
        row = (await session.scalars(select(SuiteProblem))).one()
        row.public, row.answer = problem.problem.model_dump(mode="json"), problem.answer
    return race_id


async def played(database: Database, source: bytes, upstream: Upstream, root: Path) -> list[Trace]:
    race_id = await ledger_race(database, source)
    player = SandboxedPlayer({"s": Ledger()}, SubprocessSandbox(stage()), upstream, socket_root=root)
    worker = Worker(database, player, RULES, name="w", slots=1, clock=Clock(), suites={"s"})
    await until_done(database, race_id, worker)
    async with database.session() as session:
        return list(await session.scalars(select(Trace).order_by(Trace.attempt)))


@pytest.mark.parametrize(
    ("source", "verdict", "reason"),
    [(AGENT, "solved", None), (CRASHING, "failed", "crashed: KeyError: 'my own'")],
    ids=["solving", "crashing"],
)
async def test_a_real_episode_is_stored_with_its_verdict_and_an_unbroken_chain(
    database: Database,
    upstream: Upstream,
    short_folder: Path,
    source: bytes,
    verdict: str,
    reason: str | None,
) -> None:
    (trace,) = await played(database, source, upstream, short_folder)
    assert (trace.final, trace.verdict, trace.reason) == (True, verdict, reason)
    assert verify([Event.from_json(event) for event in trace.events]) == trace.chain_head


async def test_with_the_endpoint_down_an_episode_is_unscored_and_tried_again(
    database: Database, dead_upstream: Upstream, short_folder: Path
) -> None:
    unable = AGENT.replace(b"    tools.answer(total=42)\n    tools.finish()\n", b"")
    stored = await played(database, unable, dead_upstream, short_folder)
    assert [(trace.verdict, trace.final) for trace in stored] == [("unscored", False), ("unscored", True)]
    assert all(trace.outcome is None for trace in stored)
