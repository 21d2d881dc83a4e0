"""The store of traces: what goes in comes out, and nothing goes in that contradicts itself."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import atif
import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from storage import traces
from storage.database import Database
from storage.errors import TraceRefused
from storage.events import BrokenChain, EventLog, verify
from storage.tables import Race
from storage.traces import StoredTrace, TraceQuery
from tests.storage.episodes import HOTKEY, Recording, add_episodes, driven

OUTCOME = {"components": {"product": 1.0}, "solved": True, "scorer": "r", "failures": []}


async def test_a_trace_comes_back_as_it_went_in(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    events = driven(episode_id).events
    trace_id = await _append(database, episode_id, events=events)
    (found,) = await _all(database, TraceQuery())
    assert found.trace_id == trace_id
    assert found.events == events
    assert verify(found.events) == found.chain_head == events[-1].hash
    assert (found.model_emitted, found.scripted) == (2, 0)
    assert (found.prompt_tokens, found.completion_tokens) == (20, 4)
    assert (found.hotkey, found.cluster_id, found.phase) == (HOTKEY, "cluster-0", "qualifying")
    assert found.outcome == OUTCOME
    assert found.judgement is None
    assert "answer" not in {field.name for field in dataclasses.fields(found)}
    assert atif.Trajectory.model_validate(found.trajectory).extra is not None


async def test_nothing_that_a_chain_can_hold_is_changed_by_the_database(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    recording = Recording(episode_id)
    hostile = {"nul": "a\x00b", "\x00": 1e16, "zero": -0.0, "tiny": 1e-7, "big": 10**40, "b": 1, "a": 1.0}
    recording.tool("find", hostile, content=["\U0001f600", "\\u0000", hostile])
    events = recording.ended().events
    await _append(database, episode_id, events=events)
    (found,) = await _all(database, TraceQuery())
    assert verify(found.events) == events[-1].hash
    assert list(found.events[1].body["arguments"]) == list(hostile)


async def test_a_changed_event_is_refused(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    events = list(driven(episode_id).events)
    events[2] = dataclasses.replace(events[2], at_ms=events[2].at_ms + 1)
    with pytest.raises(BrokenChain):
        await _append(database, episode_id, events=events)
    assert await traces.count(database, TraceQuery()) == 0


async def test_another_episodes_events_are_refused(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    with pytest.raises(TraceRefused, match="not of"):
        await _append(database, episode_id, events=driven(uuid.uuid4()).events)


@pytest.mark.parametrize(
    ("verdict", "reason", "outcome"),
    [
        ("solved", None, None),
        ("solved", "because", OUTCOME),
        ("failed", None, OUTCOME),
        ("unscored", None, None),
        ("unscored", "provider", OUTCOME),
        ("won", None, OUTCOME),
    ],
)
async def test_a_verdict_that_contradicts_its_outcome_is_refused(
    database: Database, verdict: str, reason: str | None, outcome: dict[str, Any] | None
) -> None:
    (episode_id,) = await add_episodes(database, 1)
    with pytest.raises(TraceRefused):
        await _append(database, episode_id, verdict=verdict, reason=reason, outcome=outcome)


async def test_an_unscored_attempt_may_have_no_events(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    await _append(
        database, episode_id, verdict="unscored", reason="sandbox\x00", outcome=None, events=(), final=False
    )
    assert await _all(database, TraceQuery()) == []
    (found,) = await _all(database, TraceQuery(final_only=False))
    assert (found.outcome, found.reason) == (None, "sandbox␀")


async def test_an_attempt_is_stored_once(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    await _append(database, episode_id)
    with pytest.raises(IntegrityError):
        await _append(database, episode_id)


@pytest.mark.parametrize("batch", [1, 3, 64])
async def test_every_batch_size_streams_the_same_traces_in_the_same_order(
    database: Database, batch: int
) -> None:
    episodes = await add_episodes(database, 7)
    async with database.session() as session:  # one transaction: all have the same time
        for episode_id in episodes[:4]:
            await _append_in(session, episode_id)
    later = [await _append(database, episode_id) for episode_id in episodes[4:]]
    found = [trace.trace_id async for trace in traces.stream(database, TraceQuery(), batch=batch)]
    assert len(set(found)) == 7
    assert found[:4] == sorted(found[:4])
    assert found[4:] == later
    limited = [trace.trace_id async for trace in traces.stream(database, TraceQuery(limit=5), batch=batch)]
    assert limited == found[:5]
    assert await traces.count(database, TraceQuery(limit=5)) == 5


async def test_a_query_selects_by_race_phase_and_verdict(database: Database) -> None:
    (first,) = await add_episodes(database, 1)
    (second,) = await add_episodes(database, 1, phase="race")
    await _append(database, first)
    await _append(database, second, verdict="failed", reason="wrong", outcome=None)
    (raced,) = await _all(database, TraceQuery(phase="race"))
    assert raced.episode_id == second
    assert [t.episode_id for t in await _all(database, TraceQuery(race_id=raced.race_id))] == [second]
    assert [t.episode_id for t in await _all(database, TraceQuery(verdicts=("solved",)))] == [first]
    assert await traces.count(database, TraceQuery(verdicts=())) == 0


async def test_an_answer_is_never_replaced_by_the_lack_of_one(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    trace_id = await _append(database, episode_id)
    await _judge(database, trace_id, grade=0.5)
    await _judge(database, trace_id, grade=None)
    (found,) = await _all(database, TraceQuery())
    assert found.judgement is not None
    assert (found.judgement.grade, found.judgement.unjudged) == (0.5, None)
    await _judge(database, trace_id, grade=0.7)
    (found,) = await _all(database, TraceQuery())
    assert found.judgement is not None
    assert found.judgement.grade == 0.7


async def test_an_answer_after_the_race_is_marked_late_and_replaces_none_that_came_in_time(
    database: Database,
) -> None:
    in_time, unanswered = [await _append(database, episode) for episode in await add_episodes(database, 2)]
    await _judge(database, in_time, grade=0.9)
    await _judge(database, unanswered, grade=None)
    async with database.session() as session:
        await session.execute(update(Race).values(state="settled"))
    for trace_id, grade in ((in_time, 0.1), (unanswered, 0.2), (unanswered, 0.3)):
        await _judge(database, trace_id, grade=grade)
    found = {t.trace_id: t.judgement async for t in traces.stream(database, TraceQuery())}
    shown = {trace_id: (said.grade, said.late) for trace_id, said in found.items() if said is not None}
    assert shown == {in_time: (0.9, False), unanswered: (0.3, True)}


async def test_the_attached_judgement_is_the_asked_one_else_the_newest_answer(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    trace_id = await _append(database, episode_id)
    await _judge(database, trace_id, grade=0.1, rubric="r1")
    await _judge(database, trace_id, grade=0.2, rubric="r2")
    await _judge(database, trace_id, grade=None, rubric="r3")
    assert await _attached(database, TraceQuery()) == ("r2", 0.2)
    assert await _attached(database, TraceQuery(rubric="r1")) == ("r1", 0.1)
    assert await _attached(database, TraceQuery(rubric="r3")) == ("r3", None)
    assert await _attached(database, TraceQuery(judge="nobody")) is None


@pytest.mark.parametrize(("grade", "unjudged"), [(None, None), (0.5, "x"), (1.5, None), (float("nan"), None)])
async def test_a_judgement_is_a_grade_between_0_and_1_or_a_reason(
    database: Database, grade: float | None, unjudged: str | None
) -> None:
    async with database.session() as session:
        with pytest.raises(ValueError, match="grade"):
            await traces.record_judgement(
                session,
                trace_id=uuid.uuid4(),
                judge="j",
                rubric="r",
                grade=grade,
                gate=None,
                rationale=None,
                citations=[],
                votes=[],
                disagreement=0.0,
                unjudged=unjudged,
            )


async def test_a_log_without_a_start_is_stored(database: Database) -> None:
    (episode_id,) = await add_episodes(database, 1)
    log = EventLog()
    log.append("ended", {"reason": "fault", "detail": "", "claim": None}, at_ms=1)
    await _append(database, episode_id, verdict="failed", reason="x", outcome=None, events=log.events)
    assert await traces.count(database, TraceQuery()) == 1


async def _append(database: Database, episode_id: uuid.UUID, **changes: Any) -> uuid.UUID:
    async with database.session() as session:
        return await _append_in(session, episode_id, **changes)


async def _append_in(session: Any, episode_id: uuid.UUID, **changes: Any) -> uuid.UUID:
    given: dict[str, Any] = {
        "attempt": 1,
        "final": True,
        "verdict": "solved",
        "reason": None,
        "outcome": OUTCOME,
        "events": driven(episode_id).events,
        "wall_s": 1.5,
    }
    return await traces.append(session, episode_id=episode_id, **{**given, **changes})


async def _all(database: Database, query: TraceQuery) -> list[StoredTrace]:
    return [trace async for trace in traces.stream(database, query)]


async def _judge(database: Database, trace_id: uuid.UUID, *, grade: float | None, rubric: str = "r1") -> None:
    async with database.session() as session:
        await traces.record_judgement(
            session,
            trace_id=trace_id,
            judge="j",
            rubric=rubric,
            grade=grade,
            gate="g" if grade is not None else None,
            rationale="well\x00",
            citations=[{"text": "\x00"}],
            votes=[0.1],
            disagreement=0.0,
            unjudged="no answer" if grade is None else None,
        )


async def _attached(database: Database, query: TraceQuery) -> tuple[str, float | None] | None:
    (found,) = await _all(database, query)
    return None if found.judgement is None else (found.judgement.rubric, found.judgement.grade)
