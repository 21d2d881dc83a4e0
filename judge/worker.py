"""Judges what waits in the store: final, scored traces without a judgement by this judge and rubric.

What the worker hands to a judge is evidence alone; what it stores is a judgement, or that there is none and
why. A judge that fails, in whatever way, leaves the trace unjudged: nothing here can turn that into a grade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge.evidence import evidence
from judge.judgement import Judge, Judgement, Unjudged
from storage.database import Database
from storage.events import Event
from storage.traces import record_judgement, unjudged

JUDGE_DEADLINE_S = 120.0
"""How long one judgement may take before the trace is left unjudged."""


@dataclass(frozen=True, slots=True)
class JudgedCount:
    """How many traces got a judgement, and how many the judge could not answer for."""

    judged: int
    unjudged: int


async def judge_pending(
    database: Database, judge: Judge, *, limit: int, deadline_s: float = JUDGE_DEADLINE_S
) -> JudgedCount:
    """Judge at most `limit` waiting traces, each in its own transaction.

    Raises what the database raises: a store that is down is no property of a trace.
    """
    async with database.session() as session:
        waiting = await unjudged(session, judge=judge.name, rubric=judge.rubric, limit=limit)
    judged = 0
    for trace_id, events in waiting:
        said = await judged_or_reason(judge, events, deadline_s=deadline_s)
        async with database.session() as session:
            await record_judgement(
                session, trace_id=trace_id, judge=judge.name, rubric=judge.rubric, **_row(said)
            )
        judged += isinstance(said, Judgement)
    return JudgedCount(judged, len(waiting) - judged)


async def judged_or_reason(
    judge: Judge, events: Sequence[Event], *, deadline_s: float
) -> Judgement | Unjudged:
    """What `judge` says of an episode. Never raises but for cancellation: any failure is `Unjudged`."""
    try:
        async with asyncio.timeout(deadline_s):
            return await judge.judge(await asyncio.to_thread(evidence, events))
    except TimeoutError:
        return Unjudged(f"the judge did not answer within {deadline_s:g} s")
    except Exception as error:  # noqa: BLE001  the boundary: whatever a judge raises, it is no grade
        return Unjudged(f"{type(error).__name__}: {error}")


def _row(said: Judgement | Unjudged) -> dict[str, Any]:
    if isinstance(said, Unjudged):
        return {
            "grade": None,
            "gate": None,
            "rationale": None,
            "citations": [],
            "votes": [],
            "disagreement": 0.0,
            "unjudged": said.reason,
        }
    return {
        "grade": said.grade,
        "gate": said.gate,
        "rationale": said.rationale,
        "citations": [citation.to_json() for citation in said.citations],
        "votes": list(said.votes),
        "disagreement": said.disagreement,
        "unjudged": None,
    }
