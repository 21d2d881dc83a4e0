"""The judge's worker on a real database: what is stored, and what never becomes a grade."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, text, update

from judge.evidence import Evidence
from judge.grounded import GroundedJudge
from judge.judgement import Judgement, Unjudged
from judge.worker import Backoff, JudgedCount, JudgeWorker, Pace, judge_pending
from storage import traces
from storage.database import Database
from storage.events import Event
from storage.judgements import StoredJudgement, attached
from storage.judging import claim
from storage.tables import Judging
from tests.judge.episodes import CLOSING, COMPARISON, Episode
from tests.storage.episodes import add_episodes

ROOT = Path(__file__).resolve().parents[2]
FAILED = {"components": {"product": 0.0}, "solved": False, "scorer": "r", "failures": []}


class Broken(GroundedJudge):
    """Fails in a way of its choice."""

    name = "broken-1"

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how
        self.asked = asyncio.Event()

    async def judge(self, evidence: Evidence) -> Judgement:
        self.asked.set()
        if self._how == "hangs":
            await asyncio.Event().wait()
        raise LookupError("the endpoint is gone")


class Silent(GroundedJudge):
    """Never has an opinion."""

    name = "silent-1"

    async def judge(self, evidence: Evidence) -> Judgement | Unjudged:  # type: ignore[override]
        return Unjudged("no panel member answered")


class Counting(GroundedJudge):
    """Answers from the n-th time on that it is asked."""

    name = "counting-1"

    def __init__(self, answers_from: int = 1) -> None:
        super().__init__()
        self.asked = 0
        self._answers_from = answers_from

    async def judge(self, evidence: Evidence) -> Judgement | Unjudged:  # type: ignore[override]
        self.asked += 1
        await asyncio.sleep(0)
        return await super().judge(evidence) if self.asked >= self._answers_from else Unjudged("not yet")


def _events(episode_id: uuid.UUID, more: str = "") -> tuple[Event, ...]:
    return Episode(episode_id=str(episode_id)).search().think(COMPARISON + more).recommend(CLOSING).events


async def _store(
    database: Database, number: int, *, verdict: str = "failed", more: str = "", final: bool = True
) -> list[uuid.UUID]:
    stored = []
    for episode_id in await add_episodes(database, number):
        async with database.session() as session:
            trace_id = await traces.append(
                session,
                episode_id=episode_id,
                attempt=1,
                final=final,
                verdict=verdict,
                reason="product" if verdict == "failed" else "provider: down",
                outcome=FAILED if verdict == "failed" else None,
                events=_events(episode_id, more),
                wall_s=1.0,
            )
        stored.append(trace_id)
    return stored


async def _said(database: Database, trace_ids: list[uuid.UUID]) -> list[StoredJudgement]:
    async with database.session() as session:
        found = await attached(session, trace_ids, judge=None, rubric=None)
    return [found[trace_id] for trace_id in trace_ids if trace_id in found]


async def test_waiting_traces_are_judged_once(database: Database) -> None:
    trace_ids = await _store(database, 3)
    judge = GroundedJudge()
    assert await judge_pending(database, judge, limit=2) == JudgedCount(judged=2, unjudged=0)
    assert await judge_pending(database, judge, limit=9) == JudgedCount(judged=1, unjudged=0)
    assert await judge_pending(database, judge, limit=9) == JudgedCount(judged=0, unjudged=0)
    for said in await _said(database, trace_ids):
        assert (said.grade, said.gate, said.judge, said.rubric) == (1.0, "tracked", judge.name, judge.rubric)
        assert {"gate", "step", "start", "end", "text", "note"} == set(said.citations[0])


async def test_unscored_and_unfinished_attempts_are_not_judged(database: Database) -> None:
    await _store(database, 1, verdict="unscored")
    await _store(database, 1, final=False)
    assert await judge_pending(database, GroundedJudge(), limit=9) == JudgedCount(judged=0, unjudged=0)


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (Broken("raises"), "LookupError: the endpoint is gone"),
        (Broken("hangs"), "did not answer within 0.05 s"),
        (Silent(), "no panel member answered"),
    ],
)
async def test_a_judge_that_fails_leaves_a_reason_and_no_grade(
    database: Database, judge: GroundedJudge, reason: str
) -> None:
    trace_ids = await _store(database, 1)
    assert await judge_pending(database, judge, limit=9, deadline_s=0.05) == JudgedCount(judged=0, unjudged=1)
    (said,) = await _said(database, trace_ids)
    assert said.grade is None
    assert reason in (said.unjudged or "")
    assert await judge_pending(database, GroundedJudge(), limit=9) == JudgedCount(judged=1, unjudged=0)


async def test_a_trace_without_an_answer_is_left_alone_until_it_is_due(database: Database) -> None:
    await _store(database, 1)
    judge = Counting(answers_from=2)
    assert await JudgeWorker(database, judge).drain() == JudgedCount(judged=0, unjudged=1)
    assert await JudgeWorker(database, judge).drain() == JudgedCount(judged=0, unjudged=0)
    assert judge.asked == 1
    await _make_due(database)
    assert await JudgeWorker(database, judge).drain() == JudgedCount(judged=1, unjudged=0)


async def test_a_trace_that_never_gets_an_answer_is_given_up_after_a_count(database: Database) -> None:
    trace_ids = await _store(database, 1)
    judge = Counting(answers_from=99)
    pace = Pace(backoff=Backoff(first_s=0, most_s=0, attempts=3))
    assert await JudgeWorker(database, judge, pace=pace).drain() == JudgedCount(judged=0, unjudged=3)
    assert judge.asked == 3
    (said,) = await _said(database, trace_ids)
    assert (said.grade, said.unjudged) == (None, "not yet")


async def test_a_trace_that_its_workers_always_die_with_is_given_up(database: Database) -> None:
    trace_ids = await _store(database, 1)
    pace = Pace(backoff=Backoff(attempts=2))
    judge = Counting()
    for _ in range(2):
        async with database.session() as session:
            await claim(
                session,
                judge=judge.name,
                rubric=judge.rubric,
                claimant=uuid.uuid4(),
                hold_s=-1.0,
                limit=1,
            )
    assert await JudgeWorker(database, judge, pace=pace).drain() == JudgedCount(judged=0, unjudged=1)
    (said,) = await _said(database, trace_ids)
    assert "given up: 2 workers" in (said.unjudged or "")
    assert judge.asked == 0


@given(st.integers(1, 200), st.floats(0, 1e3), st.floats(0, 1e6), st.integers(1, 200))
def test_pauses_double_up_to_the_most_and_end(attempt: int, first: float, more: float, count: int) -> None:
    backoff = Backoff(first_s=first, most_s=first + more, attempts=count)
    pause = backoff.pause_s(attempt)
    assert (pause is None) == (attempt >= count)
    if pause is not None:
        assert first <= pause <= first + more
        assert pause in (first + more, first * 2.0 ** (attempt - 1))


async def test_a_running_worker_hears_of_a_trace_without_looking(database: Database) -> None:
    judge = Counting()
    async with _running(database, judge, Pace(poll_s=600.0)):
        await _wait_for_listener(database)
        trace_ids = await _store(database, 2)
        await _until_judged(database, trace_ids)
    assert judge.asked == 2


async def test_a_running_worker_comes_back_to_what_is_due(database: Database) -> None:
    trace_ids = await _store(database, 1)
    pace = Pace(poll_s=0.05, backoff=Backoff(first_s=0.05))
    async with _running(database, Counting(answers_from=3), pace):
        await _until_judged(database, trace_ids)


async def test_a_worker_that_stops_gives_back_what_it_has_in_hand(database: Database) -> None:
    trace_ids = await _store(database, 1)
    slow = Broken("hangs")
    slow.name = Counting.name
    async with _running(database, slow, Pace()):
        await asyncio.wait_for(slow.asked.wait(), 20)
    assert await _said(database, trace_ids) == []
    assert await JudgeWorker(database, Counting()).drain() == JudgedCount(judged=1, unjudged=0)


async def test_workers_at_once_ask_once_about_each_trace(database: Database) -> None:
    trace_ids = await _store(database, 15)
    judge = Counting()
    counts = await asyncio.gather(*(JudgeWorker(database, judge).drain() for _ in range(4)))
    assert sum(count.judged for count in counts) == judge.asked == len(trace_ids)


async def test_killed_workers_lose_no_judgement_and_double_none(
    database: Database, database_url: str
) -> None:
    trace_ids = await _store(database, 24)
    async with _written_judgements(database) as written:
        dying, living = [_process(database_url, die_at) for die_at in range(2, 8)], _process(database_url, -1)
        assert await asyncio.to_thread(living.wait, 50) == 0
        exits = [await asyncio.to_thread(process.wait, 20) for process in dying]
        assert set(exits) <= {-signal.SIGKILL, 0}
        assert -signal.SIGKILL in exits
        assert sorted(await written()) == sorted(trace_ids)
    assert all(said.grade == 1.0 for said in await _said(database, trace_ids))


async def test_reasoning_that_a_database_cannot_hold_as_text_is_still_judged(database: Database) -> None:
    await _store(database, 1, more=" 5113553158\x00 costs 149.5 PHP\x00.")
    assert await judge_pending(database, GroundedJudge(), limit=9) == JudgedCount(judged=1, unjudged=0)


async def _make_due(database: Database) -> None:
    async with database.session() as session:
        await session.execute(update(Judging).values(not_before=func.now()))


@asynccontextmanager
async def _running(database: Database, judge: GroundedJudge, pace: Pace) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        group.create_task(JudgeWorker(database, judge, pace=pace).run(stop))
        yield
        stop.set()


async def _until_judged(database: Database, trace_ids: list[uuid.UUID]) -> None:
    while len([s for s in await _said(database, trace_ids) if s.grade == 1.0]) < len(trace_ids):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _wait_for_listener(database: Database) -> None:
    listening = text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
    while True:
        async with database.session() as session:
            if await session.scalar(listening):
                return
        await asyncio.sleep(0.02)


def _process(url: str, die_at: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.judge.worker_process", url, str(die_at)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


@asynccontextmanager
async def _written_judgements(
    database: Database,
) -> AsyncIterator[Callable[[], Awaitable[list[uuid.UUID]]]]:
    """Lists the trace of every judgement that was written while the context is open, as often as it was."""
    begin = (
        "CREATE TABLE written (trace_id uuid NOT NULL)",
        "CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO written VALUES (NEW.trace_id); RETURN NEW; END'",
        "CREATE TRIGGER note_written AFTER INSERT OR UPDATE ON judged FOR EACH ROW "
        "EXECUTE FUNCTION note_written()",
    )
    end = ("DROP TRIGGER note_written ON judged", "DROP FUNCTION note_written", "DROP TABLE written")

    async def run(statements: tuple[str, ...]) -> None:
        async with database.session() as session:
            for statement in statements:
                await session.execute(text(statement))

    async def written() -> list[uuid.UUID]:
        async with database.session() as session:
            return list(await session.scalars(text("SELECT trace_id FROM written")))

    await run(begin)
    try:
        yield written
    finally:
        await run(end)
