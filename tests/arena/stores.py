"""Rows to begin from: suites, submissions, episodes, and the event logs of episodes that were played."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from arena import queue
from arena.queue import Completed, Leased
from arena.rules import Rules
from arena.verdict import Failed, Solved, Unscored, Verdict
from problems.environment import Outcome
from problems.problem import AnsweredProblem, Problem, ProblemSuite
from storage.database import Database
from storage.events import Event, EventLog
from storage.tables import Episode, Race, Submission, Suite, SuiteProblem

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULES = Rules.load(
    {"retry_backoff_s": 10, "max_attempts": 3, "max_leases": 5, "lease_s": 45, "heartbeat_s": 10}
)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)


def solved() -> Solved:
    return Solved(Outcome({"rule": 1.0}, True, "test"))


def failed(reason: str = "no answer") -> Failed:
    return Failed(reason, None)


def unscored(reason: str = "provider: 503") -> Unscored:
    return Unscored(reason)


def problem(name: str) -> AnsweredProblem:
    return AnsweredProblem(
        problem=Problem(problem_id=name, environment="shopping", category="product", query=f"find {name}"),
        answer={"reward": name},
        leak_keys=(f"target:{name}",),
    )


def suite(name: str, size: int) -> ProblemSuite:
    return ProblemSuite(
        name=name,
        environment="shopping",
        catalog_id="c",
        scorer="test",
        problems=tuple(problem(f"{name}-{i:03}") for i in range(size)),
    )


def events(episode_id: UUID, *, model_emitted: int = 1, scripted: int = 0) -> tuple[Event, ...]:
    """What a recorder would have seen of an episode with this many tool calls of each kind."""
    log = EventLog()
    started = {
        "episode_id": str(episode_id),
        "problem": problem("p").problem.model_dump(mode="json"),
        "tools": [],
        "model": "m",
        "seed": 1,
        "limits": {},
    }
    log.append("started", started, at_ms=0)
    if model_emitted:
        ask = log.blob({"role": "user", "content": "shop"}, at_ms=0)
        emitted = [
            {"id": f"c{i}", "name": "find_product", "arguments": {"q": str(i)}} for i in range(model_emitted)
        ]
        reply = {"message": {"role": "assistant", "content": "so"}, "finish_reason": "tool_calls"}
        usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}, "emitted": emitted}
        call = {
            "call_id": "1",
            "model": "m",
            "messages": [ask],
            "tools": None,
            "params": {},
            "streamed": False,
        }
        log.append("model_call", call | {"elapsed_ms": 1, "response": reply | usage}, at_ms=1)
    for i in range(model_emitted + scripted):
        arguments = {"q": str(i)}
        use = {"name": "find_product", "arguments": arguments, "canonical": arguments, "content": []}
        log.append("tool_call", use | {"error": None, "repairs": [], "elapsed_ms": 1}, at_ms=2)
    log.append("ended", {"reason": "final", "detail": "", "claim": None}, at_ms=3)
    return log.events


async def add_submission(
    session: AsyncSession,
    hotkey: str,
    *,
    name: str | None = None,
    at: datetime = NOW,
    source: bytes | None = None,
) -> UUID:
    source = source if source is not None else f"# {hotkey} {uuid.uuid4()}".encode()
    submission = Submission(
        hotkey=hotkey,
        source_sha256=hashlib.sha256(source).hexdigest(),
        source=source,
        name=name or hotkey,
        state="accepted",
        submitted_at=at,
    )
    session.add(submission)
    await session.flush()
    return submission.id


async def add_episodes(database: Database, names: Sequence[str] = ("p0",), *, rules: Rules = RULES) -> UUID:
    """A race with one submission and one queued episode for each problem name; returns the race's id."""
    async with database.session() as session:
        submission = await add_submission(session, "hk")
        session.add(
            Suite(id="s", name="s", role="pool", environment="shopping", catalog_id="c", scorer="t", root="r")
        )
        await session.flush()
        for position, name in enumerate(names):
            one = problem(name)
            session.add(
                SuiteProblem(
                    suite_id="s",
                    problem_id=name,
                    position=position,
                    category="product",
                    cluster_id=f"c-{name}",
                    public=one.problem.model_dump(mode="json"),
                    answer=one.answer,
                    leak_keys=list(one.leak_keys),
                )
            )
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
        for position, name in enumerate(names):
            session.add(
                Episode(
                    race_id=race.id,
                    phase="race",
                    submission_id=submission,
                    suite_id="s",
                    problem_id=name,
                    seed=7,
                    position=position,
                    not_before=NOW,
                )
            )
        return race.id


async def take(database: Database, *, worker: str = "w", now: datetime = NOW) -> Leased | None:
    async with database.session() as session:
        return await queue.lease(session, worker=worker, now=now, lease_s=RULES.lease_s)


async def finish(
    database: Database,
    leased: Leased,
    verdict: Verdict,
    *,
    now: datetime = NOW,
    rules: Rules = RULES,
    **calls: int,
) -> Completed:
    async with database.session() as session:
        return await queue.complete(
            session,
            leased,
            verdict=verdict,
            events=events(leased.episode_id, **calls),
            wall_s=1.5,
            now=now,
            rules=rules,
        )
