"""A whole race in the ledger: sums to add up, agents that answer at once, and records that prove it.

The records are what the recorder would have seen; the environment is the test's own ledger, so that every
outcome can be scored again from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select

from arena import queue
from arena.episode import attempt
from arena.queue import Leased
from arena.races import RaceEngine
from arena.rules import Rules
from arena.suites import answered, store_suite
from arena.verdict import Failed, Solved, Unscored, Verdict
from distill.filters import FilterConfig, accepts
from problems.problem import AnsweredProblem, Problem, ProblemSuite
from storage.database import Database
from storage.events import Event, EventLog
from storage.judgements import record_judgement, stored_events
from storage.tables import Judged, Race, Submission, SuiteProblem, Trace
from tests.arena.ledger import Ledger
from tests.arena.stores import NOW, Clock, add_submission

LEDGER = Ledger()
JUDGE, RUBRIC = "counting", "counting-1"
RULES = Rules.load(
    {
        "public_size": 4,
        "drawn_size": 10,
        "retry_backoff_s": 0,
        "judge_pause_s": 0,
        "judge_retries": 1,
        "max_attempts": 2,
    }
)

Skill = Callable[[str, int], bool | None]
"""Whether an agent (by hotkey) answers the sum of this number rightly; None: our sandbox fails it."""


def sums(name: str, size: int) -> ProblemSuite:
    """A suite of sums, each asking for two numbers of its own."""
    return ProblemSuite(
        name=name,
        environment="ledger",
        catalog_id="none",
        scorer="ledger-1",
        problems=tuple(
            AnsweredProblem(
                problem=Problem(
                    problem_id=f"{name}-{i:03}",
                    environment="ledger",
                    category="sum",
                    query=f"{name}: {i} + {i}?",
                ),
                answer={"total": 2 * i},
                leak_keys=(f"{name}:{i}",),
            )
            for i in range(size)
        ),
    )


def record(
    leased: Leased, problem: AnsweredProblem, right: bool | None, *, scripted: bool = False
) -> tuple[Event, ...]:
    """What the recorder sees of an agent that answers at once, through the model unless it is `scripted`."""
    log = EventLog()
    started = {
        "episode_id": str(leased.episode_id),
        "problem": problem.problem.model_dump(mode="json"),
        "tools": [],
        "model": "m",
        "seed": leased.seed,
        "limits": {},
    }
    log.append("started", started, at_ms=0)
    if right is None:
        log.append("ended", {"reason": "setup_error", "detail": "no room", "claim": None}, at_ms=1)
        return log.events
    uses = [("answer", {"total": problem.answer["total"] + (0 if right else 1)}), ("finish", {})]
    if not scripted:
        emitted = [{"id": f"c{i}", "name": name, "arguments": use} for i, (name, use) in enumerate(uses)]
        call = {
            "call_id": "1",
            "model": "m",
            "messages": [log.blob({"role": "user", "content": problem.problem.query}, at_ms=0)],
            "tools": None,
            "params": {},
            "streamed": False,
            "elapsed_ms": 1,
            "response": {
                "message": {"role": "assistant", "content": "I add them."},
                "finish_reason": "tool_calls",
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
                "emitted": emitted,
            },
        }
        log.append("model_call", call, at_ms=1)
    for name, arguments in uses:
        use = {"name": name, "arguments": arguments, "canonical": arguments, "content": "done"}
        log.append("tool_call", use | {"error": None, "repairs": [], "elapsed_ms": 1}, at_ms=2)
    log.append("ended", {"reason": "final", "detail": "", "claim": None}, at_ms=3)
    return log.events


def verdict(events: Sequence[Event], problem: AnsweredProblem, right: bool | None) -> Verdict:
    """What the rules say of it."""
    if right is None:
        return Unscored("sandbox: no room")
    outcome = LEDGER.score(problem, attempt(events))
    return Solved(outcome) if outcome.solved else Failed(outcome.failures[0].rule, outcome)


def grade(events: Sequence[Event]) -> float:
    """A judge that always says the same: the more was said, the better."""
    return 0.9 if any(e.kind == "model_call" for e in events) else 0.5


class Blocks:
    """A block every twelve seconds."""

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str]:
        number = -int(-when.timestamp() // 12)
        return number, f"0x{number:064x}"


@dataclass
class Sums:
    """Races on a store."""

    database: Database
    rules: Rules = RULES
    clock: Clock = field(default_factory=lambda: Clock(NOW + timedelta(minutes=1)))
    unjudged: set[str] = field(default_factory=set)
    """Problems that the judge cannot answer for."""

    def __post_init__(self) -> None:
        self.engine = RaceEngine(
            self.database,
            self.rules,
            clock=self.clock,
            blocks=Blocks(),
            judge=JUDGE,
            rubric=RUBRIC,
            judge_pending=self.judge,
            accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
        )

    async def run(
        self, hotkeys: Sequence[str], skill: Skill, *, champion: str | None = None, pool: int = 30
    ) -> Race:
        """One race from opening to its end."""
        public = await store_suite(self.database, sums("public", 4), "public")
        hidden = await store_suite(self.database, sums("pool", pool), "pool")
        async with self.database.session() as session:
            known = dict((await session.execute(select(Submission.hotkey, Submission.id))).all())
            names = [*([] if champion is None else [champion]), *hotkeys]
            for i, hotkey in enumerate(names):
                if hotkey not in known:
                    at = NOW + timedelta(seconds=i)
                    known[hotkey] = await add_submission(session, hotkey, at=at, source=hotkey.encode())
        founding = None if champion is None else known[champion]
        race_id = await self.engine.open_race(public, hidden, founding_champion=founding)
        await self.engine.enter(race_id, [known[h] for h in hotkeys])
        async with asyncio.timeout(60):
            while True:
                await self.play(skill)
                if await self.engine.advance(race_id) in ("settled", "void"):
                    break
        async with self.database.session() as session:
            return await session.get_one(Race, race_id)

    async def play(self, skill: Skill) -> None:
        """Play all that waits."""
        async with self.database.session() as session:
            hotkeys = dict((await session.execute(select(Submission.id, Submission.hotkey))).all())
        while True:
            async with self.database.session() as session:
                leased = await queue.lease(session, worker="w", now=self.clock(), lease_s=45)
                if leased is None:
                    return
                row = await session.get_one(SuiteProblem, (leased.suite_id, leased.problem_id))
                problem = answered(row)
                hotkey = hotkeys[leased.submission_id]
                right = skill(hotkey, problem.answer["total"] // 2)
                seen = record(leased, problem, right, scripted=hotkey.startswith("scripted"))
                await queue.complete(
                    session,
                    leased,
                    verdict=verdict(seen, problem, right),
                    events=seen,
                    wall_s=0.1,
                    now=self.clock(),
                    rules=self.rules,
                )

    async def judge(self) -> None:
        """Grade what lacks an answer."""
        async with self.database.session() as session:
            waiting = await session.scalars(
                select(Trace)
                .outerjoin(Judged, (Judged.trace_id == Trace.id) & Judged.grade.is_not(None))
                .where(Trace.final, Trace.verdict != "unscored", Judged.id.is_(None))
            )
            for trace in waiting.all():
                events = stored_events(trace.events)
                down = events[0].body["problem"]["problem_id"] in self.unjudged
                await record_judgement(
                    session,
                    trace_id=trace.id,
                    judge=JUDGE,
                    rubric=RUBRIC,
                    grade=None if down else grade(events),
                    gate=None,
                    rationale=None,
                    citations=[],
                    votes=[],
                    disagreement=0.0,
                    unjudged="the judge is down" if down else None,
                )
