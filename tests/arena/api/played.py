"""Races whose agents think, say and write what nobody else may see before the embargo is over.

Whatever must stay hidden has one of the words below in it, so that a test can look for it in any answer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from bittensor.keyfiles import Keypair
from sqlalchemy import select

from arena import queue
from arena.suites import store_suite
from arena.verdict import Failed, Solved, Unscored, Verdict
from problems.environment import Outcome, RuleFailure
from problems.problem import AnsweredProblem, Problem, ProblemSuite
from storage.database import Database
from storage.events import Event, EventLog
from storage.judgements import record_judgement
from storage.tables import Episode, Judged, Trace
from tests.arena.stores import NOW, Clock, add_submission
from tests.arena.test_races import RULES, Arena

HUSH = "hushhush"
"""In sources, prompts, reasoning, tool calls, claims, last words, and what a judge quotes of them."""
ANSWER = "theanswer"
"""In answers, in what rules wanted, and in leak keys: never to be seen."""


def hushed_source(name: str) -> bytes:
    """A source that no two agents have in common, and long enough for copies of it to be found."""
    signs = "+-*/%&|^"
    steps = "".join(
        f"    plan = [plan, '{HUSH} {name} {i}'"
        + "".join(f" {signs[(7 * i + 3 * j * j + i * j) % 8]} problem" for j in range(8))
        + "]\n"
        for i in range(24)
    )
    return f"def agent(problem):\n    plan = '{HUSH} {name}'\n{steps}    return plan\n".encode()


def query_of(problem_id: str) -> str:
    """What a problem asks."""
    return f"wanted: {problem_id}"


def stored_suite(name: str, size: int) -> ProblemSuite:
    """A suite of `size` problems, `{name}-000` and on."""
    return ProblemSuite(
        name=name,
        environment="shopping",
        catalog_id="c",
        scorer="test",
        problems=tuple(
            AnsweredProblem(
                problem=Problem(
                    problem_id=problem_id,
                    environment="shopping",
                    category=("product", "shop")[i % 2],
                    query=query_of(problem_id),
                ),
                answer={"reward": f"{ANSWER} {problem_id}"},
                leak_keys=(f"{ANSWER}:{problem_id}",),
            )
            for i in range(size)
            for problem_id in (f"{name}-{i:03}",)
        ),
    )


class Played(Arena):
    """An arena of three agents: `good` solves everything, `champ` half, and `weak` fails in every way."""

    def __init__(self, database: Database, clock: Clock, hotkeys: dict[str, Keypair]) -> None:
        super().__init__(database, clock)
        self.hotkeys = hotkeys
        self.submissions: dict[str, UUID] = {}

    async def open_first(self) -> UUID:
        """Store suites and submissions, and open the first race with `good` and `weak` against `champ`."""
        public = await store_suite(self.database, stored_suite("public", 4), "public")
        pool = await store_suite(self.database, stored_suite("pool", 40), "pool")
        async with self.database.session() as session:
            for i, (name, keypair) in enumerate(self.hotkeys.items()):
                self.submissions[name] = await add_submission(
                    session,
                    keypair.ss58_address,
                    name=name,
                    at=NOW + timedelta(seconds=i),
                    source=hushed_source(name),
                )
        race_id = await self.engine.open_race(public, pool, founding_champion=self.submissions["champ"])
        await self.enter(race_id)
        return race_id

    async def enter(self, race_id: UUID) -> None:
        """Enter `good` and `weak`."""
        await self.engine.enter(race_id, [self.submissions["good"], self.submissions["weak"]])

    async def play_all(self) -> int:
        """Play what waits."""
        names = {submission: name for name, submission in self.submissions.items()}
        for played in range(10_000):
            async with self.database.session() as session:
                leased = await queue.lease(session, worker="w", now=self.clock(), lease_s=45)
                if leased is None:
                    return played
                position = (await session.get_one(Episode, leased.episode_id)).position
                name = names[leased.submission_id]
                await queue.complete(
                    session,
                    leased,
                    verdict=_verdict(name, leased.phase, position),
                    events=hushed_events(leased.episode_id, name, leased.problem_id),
                    wall_s=1.5,
                    now=self.clock(),
                    rules=RULES,
                )
        raise AssertionError("there is always more to play")

    async def judge(self, *, rubric: str = "r", grade: float = 0.9) -> None:
        """Judge, and quote what was thought."""
        async with self.database.session() as session:
            waiting = await session.scalars(
                select(Trace.id)
                .outerjoin(Judged, (Judged.trace_id == Trace.id) & (Judged.rubric == rubric))
                .where(Trace.final, Trace.verdict != "unscored", Judged.grade.is_(None))
            )
            for trace_id in waiting.all():
                await record_judgement(
                    session,
                    trace_id=trace_id,
                    judge="j",
                    rubric=rubric,
                    grade=grade,
                    gate="grounded",
                    rationale=f"{HUSH} it thought",
                    citations=[{"gate": "grounded", "text": f"{HUSH} it thought"}],
                    votes=[],
                    disagreement=0.0,
                    unjudged=None,
                )


def _verdict(name: str, phase: str, position: int) -> Verdict:
    if name == "good" or (name == "champ" and position % 2 == 0):
        return Solved(Outcome({"rule": 1.0}, True, "test"))
    if phase == "race" and position == 1:
        return Unscored(f"the agent was never started: {HUSH} last words")
    if position % 3 == 0:
        return Failed(f"crashed: {HUSH} last words", None)
    failures = (RuleFailure("target 1.price", ANSWER, 1), RuleFailure("target 2.sku & attrs", ANSWER, HUSH))
    return Failed("target 1.price", Outcome({"rule": 0.0}, False, "test", failures))


def hushed_events(episode_id: UUID, name: str, problem_id: str) -> tuple[Event, ...]:
    """What a recorder sees of an agent that says `HUSH` wherever it can."""
    log = EventLog()
    problem = Problem(
        problem_id=problem_id, environment="shopping", category="product", query=query_of(problem_id)
    )
    started = {"episode_id": str(episode_id), "problem": problem.model_dump(mode="json"), "tools": []}
    log.append("started", started | {"model": "m", "seed": 1, "limits": {}}, at_ms=0)
    ask = log.blob({"role": "user", "content": f"{HUSH} prompt of {name}"}, at_ms=0)
    arguments = {"q": f"{HUSH} query"}
    reply = {
        "message": {"role": "assistant", "content": f"{HUSH} reasoning"},
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        "emitted": [{"id": "c0", "name": "find_product", "arguments": arguments}],
    }
    call: dict[str, Any] = {
        "call_id": "1",
        "model": "m",
        "messages": [ask],
        "tools": None,
        "params": {},
        "streamed": False,
    }
    log.append("model_call", call | {"elapsed_ms": 1, "response": reply}, at_ms=1)
    use = {"name": "find_product", "arguments": arguments, "canonical": arguments, "content": [HUSH]}
    log.append("tool_call", use | {"error": None, "repairs": [], "elapsed_ms": 1}, at_ms=2)
    log.append("ended", {"reason": "final", "detail": f"{HUSH} detail", "claim": HUSH}, at_ms=3)
    return log.events
