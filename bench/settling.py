"""A race of agents that answer at once, from opening to settlement, and how its time grows with its problems.

What is measured is ours alone: leases, storing traces with their chains and trajectories, judging, the race's
own steps. The real worker and engine run in one process on an embedded server. The baseline of a longer race
is the shortest one's time, times as many problems.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from arena.races import OVER, RaceEngine
from arena.rules import Rules
from arena.suites import store_suite
from arena.verdict import Failed, Solved, Verdict
from arena.worker import Assignment, Worker
from bench.figures import Figure, main
from distill.filters import FilterConfig, accepts
from judge.grounded import GroundedJudge
from judge.worker import JudgeWorker
from problems.environment import Outcome
from problems.problem import AnsweredProblem, Problem, ProblemSuite
from storage.database import Database
from storage.events import Event, EventLog
from storage.tables import Submission

AGENTS, PROBLEMS = 20, 100
GROWTH = (1, 2, 4)
SLOTS = 4
PUBLIC = 2
MOST_GROWTH = 1.25
"""A race of so many times the problems may take so much more than so many times the time."""


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds from opening to the settlement."""
    agents, problems = (5, 20) if quick else (AGENTS, PROBLEMS)
    figures: list[Figure] = []
    first = 0.0
    for growth in GROWTH:
        took = asyncio.run(_settled(agents, growth * problems))
        first = first or took
        longer = growth > 1
        figures.append(
            Figure(
                f"race of {agents} agents on {growth * problems} problems, settled",
                took,
                "s",
                baseline=first * growth if longer else None,
                goal=MOST_GROWTH if longer else None,
                of="ratio",
            )
        )
    return figures


@dataclass(frozen=True)
class _Played:
    verdict: Verdict
    events: Sequence[Event]
    wall_s: float = 0.0


class _Instant:
    """Plays an episode by writing its record down."""

    async def play(self, assignment: Assignment, slot: int) -> _Played:
        solved = assignment.source[-1] % (2 + int(assignment.problem.problem.problem_id[-1])) == 0
        outcome = Outcome({"rule": float(solved)}, solved, "bench")
        verdict = Solved(outcome) if solved else Failed("rule", outcome)
        return _Played(verdict, _record(assignment))


class _Blocks:
    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str]:
        return 1, "0x" + hashlib.sha256(when.isoformat().encode()).hexdigest()


async def _settled(agents: int, problems: int) -> float:
    rules = Rules.load(
        {
            "public_size": PUBLIC,
            "drawn_size": problems,
            "entry_share": 0.0,
            "max_challengers": agents,
            "judge_pause_s": 0,
        }
    )
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as name:
        await asyncio.to_thread(Path(name).chmod, 0o755)  # the database's own user passes through it
        async with Database.open(None, Path(name)) as database:
            await database.migrate()
            public = await store_suite(database, _suite("public", PUBLIC), "public")
            pool = await store_suite(database, _suite("pool", problems), "pool")
            async with database.session() as session:
                entrants = [_submission(i) for i in range(agents)]
                session.add_all(entrants)
            judge = GroundedJudge()
            engine = RaceEngine(
                database,
                rules,
                clock=_now,
                blocks=_Blocks(),
                judge=judge.name,
                rubric=judge.rubric,
                judge_pending=JudgeWorker(database, judge).drain,
                accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
            )
            began = time.perf_counter()
            race_id = await engine.open_race(public, pool, founding_champion=entrants[0].id)
            await engine.enter(race_id, [s.id for s in entrants[1:]])
            worker = Worker(database, _Instant(), rules, name="bench", slots=SLOTS, clock=_now)
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run(stop))
                state = ""
                while state not in OVER:
                    state = await engine.advance(race_id)
                    await asyncio.sleep(0.05)
                stop.set()
            if state != "settled":
                raise RuntimeError(f"the race is {state}")
            return time.perf_counter() - began


def _suite(name: str, size: int) -> ProblemSuite:
    return ProblemSuite(
        name=name,
        environment="bench",
        catalog_id="none",
        scorer="bench",
        problems=tuple(
            AnsweredProblem(
                problem=Problem(
                    problem_id=f"{name}-{i}", environment="bench", category="one", query=f"{name} number {i}"
                ),
                answer={"number": i},
                leak_keys=(f"{name}:{i}",),
            )
            for i in range(size)
        ),
    )


def _submission(number: int) -> Submission:
    source = b"# agent " + bytes([48 + number])
    return Submission(
        hotkey=f"hotkey {number}",
        source_sha256=hashlib.sha256(source).hexdigest(),
        source=source,
        name=f"agent {number}",
        state="accepted",
        submitted_at=_now() - timedelta(days=1, seconds=-number),
    )


def _record(assignment: Assignment) -> tuple[Event, ...]:
    """Two model calls, each with a tool call that the model emitted."""
    log = EventLog()
    started: dict[str, Any] = {
        "episode_id": str(assignment.leased.episode_id),
        "problem": assignment.problem.problem.model_dump(mode="json"),
        "tools": [],
        "model": "m",
        "seed": assignment.leased.seed,
        "limits": {},
    }
    log.append("started", started, at_ms=0)
    context: list[str] = []
    for number, (tool, arguments) in enumerate((("look", {"q": "it"}), ("take", {"id": "1"}))):
        context.append(log.blob({"role": "user", "content": f"what now, {number}?"}, at_ms=number))
        call: dict[str, Any] = {
            "call_id": str(number),
            "model": "m",
            "messages": list(context),
            "tools": None,
        }
        reply = {
            "message": {"role": "assistant", "content": "I look at what there is, and take what fits."},
            "finish_reason": "tool_calls",
            "usage": {"prompt_tokens": 100, "completion_tokens": 20},
            "emitted": [{"id": f"c{number}", "name": tool, "arguments": arguments}],
        }
        log.append(
            "model_call",
            {**call, "params": {}, "streamed": False, "elapsed_ms": 1, "response": reply},
            at_ms=number,
        )
        use = {"name": tool, "arguments": arguments, "canonical": arguments, "content": "done"}
        log.append("tool_call", {**use, "error": None, "repairs": [], "elapsed_ms": 1}, at_ms=number)
    log.append("ended", {"reason": "final", "detail": "", "claim": None}, at_ms=9)
    return log.events


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main(measure)
