"""Event logs and rows for the tests of the store."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from storage.database import Database
from storage.events import Event, EventLog
from storage.tables import Episode, Race, Submission, Suite, SuiteProblem

CLOCK_MS = 1_700_000_000_000
HOTKEY = "5HotkeyOfTheMiner"
QUERY = "a red lamp under 30"
TOOL = {"type": "function", "function": {"name": "find", "description": "d", "parameters": {}}}


class Recording:
    """Builds the log of one episode, one event a call; each event is a second after the one before."""

    def __init__(self, episode_id: uuid.UUID | str = "e") -> None:
        self.log = EventLog()
        self._calls = 0
        self._add(
            "started",
            {
                "episode_id": str(episode_id),
                "problem": {"problem_id": "p", "environment": "x", "category": "c", "query": QUERY},
                "tools": [TOOL],
                "model": "m",
                "seed": 1,
                "limits": {},
            },
        )

    @property
    def events(self) -> tuple[Event, ...]:
        return self.log.events

    def model(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        content: Any = "",
        emitted: Sequence[tuple[str | None, str, dict[str, Any] | None]] = (),
        usage: dict[str, Any] | None = None,
        **message: Any,
    ) -> None:
        self._calls += 1
        response = {
            "message": {"role": "assistant", "content": content, **message},
            "finish_reason": "stop",
            "usage": usage if usage is not None else {"prompt_tokens": 10, "completion_tokens": 2},
            "emitted": [{"id": i, "name": n, "arguments": a} for i, n, a in emitted],
        }
        self._model_call(messages, {"response": response})

    def failed_model(self, messages: Sequence[dict[str, Any]]) -> None:
        self._calls += 1
        self._model_call(messages, {"error": {"kind": "provider", "message": "down", "status": 503}})

    def tool(
        self, name: str, arguments: dict[str, Any] | None, *, content: Any = "ok", error: str | None = None
    ) -> None:
        self._add(
            "tool_call",
            {
                "name": name,
                "arguments": arguments if arguments is not None else "{not json",
                "canonical": arguments,
                "content": content,
                "error": error,
                "repairs": [],
                "elapsed_ms": 3,
            },
        )

    def refused(self) -> None:
        self._add("refused", {"what": "tool_call", "message": "malformed"})

    def ended(self, reason: str = "final_call") -> Recording:
        self._add("ended", {"reason": reason, "detail": "", "claim": None})
        return self

    def _model_call(self, messages: Sequence[dict[str, Any]], result: dict[str, Any]) -> None:
        at_ms = self._now()
        body = {
            "call_id": f"call-{self._calls}",
            "model": "m",
            "messages": [self.log.blob(message, at_ms=at_ms) for message in messages],
            "tools": self.log.blob([TOOL], at_ms=at_ms),
            "params": {"temperature": 0.5},
            "streamed": False,
            "elapsed_ms": 7,
            **result,
        }
        self._add("model_call", body)

    def _add(self, kind: Any, body: dict[str, Any]) -> None:
        self.log.append(kind, body, at_ms=self._now())

    def _now(self) -> int:
        return CLOCK_MS + 1000 * len(self.log.events)


def said(role: str, content: Any) -> dict[str, Any]:
    """A chat message."""
    return {"role": role, "content": content}


def driven(episode_id: uuid.UUID | str = "e") -> Recording:
    """An episode in which the model made both calls, in two turns over one growing conversation."""
    recording = Recording(episode_id)
    opening = [said("system", "Be brief."), said("user", QUERY)]
    find = {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"q": "lamp"}'}}
    recording.model(
        opening,
        content="",
        reasoning_content="look first",
        tool_calls=[find],
        emitted=[("a", "find", {"q": "lamp"})],
    )
    recording.tool("find", {"q": "lamp"}, content=[{"title": "Lamp\x00"}])
    answered = [
        *opening,
        {"role": "assistant", "content": "", "tool_calls": [find]},
        {"role": "tool", "tool_call_id": "a", "content": "..."},
    ]
    recording.model(answered, content="It fits.", emitted=[("b", "terminate", {})])
    recording.tool("terminate", {})
    return recording.ended()


async def add_episodes(database: Database, number: int, *, phase: str = "qualifying") -> list[uuid.UUID]:
    """A race with one agent and `number` episodes, one a problem."""
    suite = Suite(
        id=uuid.uuid4().hex, name="s", role="public", environment="x", catalog_id="c", scorer="r", root="0"
    )
    submission = Submission(
        id=uuid.uuid4(), hotkey=HOTKEY, source_sha256=uuid.uuid4().hex, source=b"", name="agent"
    )
    race = Race(
        id=uuid.uuid4(),
        number=uuid.uuid4().int % 1_000_000,
        rules={},
        rules_hash="0",
        public_suite_id=suite.id,
        pool_suite_id=suite.id,
        opened_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    episodes = [
        Episode(
            id=uuid.uuid4(),
            race_id=race.id,
            phase=phase,
            submission_id=submission.id,
            suite_id=suite.id,
            problem_id=f"p{i}",
            seed=i,
        )
        for i in range(number)
    ]
    async with database.session() as session:
        session.add_all([suite, submission])
        await session.flush()
        session.add(race)
        for i in range(number):
            session.add(
                SuiteProblem(
                    suite_id=suite.id,
                    problem_id=f"p{i}",
                    position=i,
                    category="c",
                    cluster_id=f"cluster-{i}",
                    public={"query": QUERY},
                    answer={"secret": "the-answer"},
                    leak_keys=[],
                )
            )
        await session.flush()
        session.add_all(episodes)
    return [episode.id for episode in episodes]
