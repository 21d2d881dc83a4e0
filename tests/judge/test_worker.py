"""The judge's worker on a real database: what is stored, and what never becomes a grade."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from judge.evidence import Evidence
from judge.grounded import GroundedJudge
from judge.judgement import Judgement, Unjudged
from judge.worker import JudgedCount, judge_pending
from storage import traces
from storage.database import Database
from storage.events import Event
from storage.judgements import StoredJudgement, attached
from tests.judge.episodes import CLOSING, COMPARISON, Episode
from tests.storage.episodes import add_episodes

FAILED = {"components": {"product": 0.0}, "solved": False, "scorer": "r", "failures": []}


class Broken(GroundedJudge):
    """Fails in a way of its choice."""

    name = "broken-1"

    def __init__(self, how: str) -> None:
        self._how = how

    async def judge(self, evidence: Evidence) -> Judgement:
        if self._how == "hangs":
            await asyncio.Event().wait()
        raise LookupError("the endpoint is gone")


class Silent(GroundedJudge):
    """Never has an opinion."""

    name = "silent-1"

    async def judge(self, evidence: Evidence) -> Judgement | Unjudged:  # type: ignore[override]
        return Unjudged("no panel member answered")


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


async def test_reasoning_that_a_database_cannot_hold_as_text_is_still_judged(database: Database) -> None:
    await _store(database, 1, more=" 5113553158\x00 costs 149.5 PHP\x00.")
    assert await judge_pending(database, GroundedJudge(), limit=9) == JudgedCount(judged=1, unjudged=0)
