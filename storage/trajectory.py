"""An episode as an ATIF v1.8 trajectory, and what to read from its events.

What each step stands for:

- the messages that opened the first model call: system and user steps (the problem's query is the user step
  when no model was called);
- an answered model call: an agent step with `llm_call_count` 1, the calls it emitted (`extra.executed` says
  whether each was executed), and the observations of the executed ones;
- a scripted tool call: an agent step with `llm_call_count` 0;
- a user or system message that the script wrote into a later context: a step before that call; an assistant
  message that the script put before the first call: an agent step with `llm_call_count` 0, marked injected.

An answer that the agent only returned is no step: it stands in the root's `extra.claimed_answer`.

The format: https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import atif

from storage.events import GENESIS, Event, blobs
from storage.turns import (
    UNFINISHED,
    ClaimedAnswer,
    ModelTurn,
    ScriptedTurn,
    ToolCounts,
    ToolRecord,
    Turn,
    claimed_answer,
    context,
    counts,
    emitted_id,
    end_reason,
    plain_text,
    tool_records,
    turns,
)

__all__ = [
    "SCHEMA_VERSION",
    "UNFINISHED",
    "ClaimedAnswer",
    "ModelTurn",
    "ScriptedTurn",
    "ToolCounts",
    "ToolRecord",
    "Turn",
    "claimed_answer",
    "counts",
    "end_reason",
    "timestamp",
    "to_atif",
    "tokens",
    "tool_records",
    "turns",
]

SCHEMA_VERSION = "ATIF-v1.8"

_MAX_TOKENS = 2**31 - 1
"""Of one call; beyond any model's context, so that sums stay in the range of the database's integers."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_atif(events: Sequence[Event]) -> atif.Trajectory:
    """The episode as an ATIF trajectory. Raises BrokenChain when a model call refers to an absent blob."""
    started = next((e.body for e in events if e.kind == "started"), {})
    head = events[-1].hash if events else GENESIS
    answered = [turn for turn in turns(events) if isinstance(turn, ModelTurn)]
    steps = _Steps(events, started).build()
    return atif.Trajectory(
        schema_version=SCHEMA_VERSION,
        session_id=_text_or_none(started.get("episode_id")),
        trajectory_id=head,
        agent=atif.Agent(
            name="submission",
            version="unrecorded",
            model_name=_text_or_none(started.get("model")),
            tool_definitions=[dict(tool) for tool in started.get("tools") or ()] or None,
        ),
        steps=steps,
        final_metrics=atif.FinalMetrics(
            total_prompt_tokens=_total(answered, "prompt_tokens"),
            total_completion_tokens=_total(answered, "completion_tokens"),
            total_cost_usd=_cost(answered),
            total_steps=len(steps),
        ),
        extra=_root_extra(events, started, head),
    )


def tokens(usage: Mapping[str, Any], name: str) -> int:
    """A token count of a provider's usage, 0 when it is absent or no believable count."""
    value = usage.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS:
        return value
    return 0


def timestamp(at_ms: int) -> str | None:
    """Unix milliseconds as ISO 8601 in UTC; None outside the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


class _Steps:
    """Builds the steps in event order; knows which call ids and context messages were already shown."""

    def __init__(self, events: Sequence[Event], started: Mapping[str, Any]) -> None:
        self._events = events
        self._stored = blobs(events)
        self._query = (started.get("problem") or {}).get("query")
        self._began = next((e for e in events if e.kind == "started"), None)
        self._steps: list[atif.Step] = []
        self._taken: set[str] = set()
        self._shown: list[str] | None = None

    def build(self) -> list[atif.Step]:
        by_seq = {turn.seq: turn for turn in turns(self._events)}
        if self._began is not None and self._query and not self._any_model_call():
            self._add("user", str(self._query), self._began.at_ms)
        for event in self._events:
            if event.kind == "model_call":
                self._context(event)
            turn = by_seq.get(event.seq)
            if isinstance(turn, ModelTurn):
                self._model(turn)
            elif isinstance(turn, ScriptedTurn):
                self._scripted(turn)
        return self._steps

    def _any_model_call(self) -> bool:
        return any(e.kind == "model_call" for e in self._events)

    def _add(
        self, source: Literal["system", "user", "agent"], message: str, at_ms: int, **fields: Any
    ) -> None:
        self._steps.append(
            atif.Step(
                step_id=len(self._steps) + 1,
                timestamp=timestamp(at_ms),
                source=source,
                message=message,
                **fields,
            )
        )

    def _context(self, event: Event) -> None:
        """Show what this call's context holds that the context of the call before it did not."""
        first = self._shown is None
        before = Counter(self._shown or ())
        for name, message in zip(event.body["messages"], context(event, self._stored), strict=True):
            if before[name] > 0:
                before[name] -= 1
                continue
            role, text = message.get("role"), plain_text(message.get("content"))
            if role in ("system", "developer"):
                self._add("system", text, event.at_ms)
            elif role == "user":
                self._add("user", text, event.at_ms)
            elif first and role == "assistant":
                self._add("agent", text, event.at_ms, llm_call_count=0, extra={"injected": True})
        self._shown = list(event.body["messages"])

    def _model(self, turn: ModelTurn) -> None:
        executed = list(turn.tool_records)
        calls: list[atif.ToolCall] = []
        results: list[atif.ObservationResult] = []
        for index, call in enumerate(turn.emitted):
            name = emitted_id(call, turn.seq, index)
            record = _take(executed, name, call)
            shown = self._unique(name)
            calls.append(_tool_call(shown, call["name"], call["arguments"], record))
            if record is not None:
                results.append(_observation(shown, record))
        self._add(
            "agent",
            turn.text,
            turn.at_ms,
            model_name=turn.model or None,
            reasoning_content=turn.reasoning or None,
            tool_calls=calls or None,
            observation=atif.Observation(results=results) if results else None,
            metrics=_metrics(turn.usage),
            llm_call_count=1,
            extra={
                "call_id": turn.call_id,
                "seq": turn.seq,
                "finish_reason": turn.finish_reason,
                "context_messages": len(turn.messages),
                "params": turn.params,
            },
        )

    def _scripted(self, turn: ScriptedTurn) -> None:
        (record,) = turn.tool_records
        shown = self._unique(record.call_id)
        self._add(
            "agent",
            "",
            turn.at_ms,
            tool_calls=[_tool_call(shown, record.name, record.arguments, record)],
            observation=atif.Observation(results=[_observation(shown, record)]),
            llm_call_count=0,
            extra={"seq": turn.seq},
        )

    def _unique(self, call_id: str) -> str:
        name, number = call_id, 1
        while name in self._taken:
            number += 1
            name = f"{call_id}#{number}"
        self._taken.add(name)
        return name


def _take(executed: list[ToolRecord], call_id: str, call: Mapping[str, Any]) -> ToolRecord | None:
    """Remove and return the first executed record of this emitted call."""
    for index, record in enumerate(executed):
        if (record.call_id, record.name, record.arguments) == (call_id, call["name"], call["arguments"]):
            return executed.pop(index)
    return None


def _tool_call(
    call_id: str, name: object, arguments: dict[str, Any] | None, record: ToolRecord | None
) -> atif.ToolCall:
    extra: dict[str, Any] = {"executed": record is not None}
    if arguments is None:
        extra["understood"] = False
        if record is not None:
            extra["raw_arguments"] = record.raw
    return atif.ToolCall(
        tool_call_id=call_id, function_name=str(name), arguments=dict(arguments or {}), extra=extra
    )


def _observation(call_id: str, record: ToolRecord) -> atif.ObservationResult:
    content = record.content
    return atif.ObservationResult(
        source_call_id=call_id,
        content=content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        extra={
            "seq": record.seq,
            "timestamp": timestamp(record.at_ms),
            "elapsed_ms": record.elapsed_ms,
            "error": record.error,
            "repairs": list(record.repairs),
        },
    )


def _metrics(usage: Mapping[str, Any]) -> atif.Metrics | None:
    if not usage:
        return None
    details = usage.get("prompt_tokens_details")
    cached = tokens(details, "cached_tokens") if isinstance(details, Mapping) else 0
    return atif.Metrics(
        prompt_tokens=tokens(usage, "prompt_tokens"),
        completion_tokens=tokens(usage, "completion_tokens"),
        cached_tokens=cached or None,
        cost_usd=usage.get("usd"),
    )


def _total(answered: Sequence[ModelTurn], name: str) -> int:
    return sum(tokens(turn.usage, name) for turn in answered)


def _cost(answered: Sequence[ModelTurn]) -> float | None:
    """In US dollars; None when no call had a price."""
    costs = [turn.usage["usd"] for turn in answered if "usd" in turn.usage]
    return math.fsum(costs) if costs else None


def _root_extra(events: Sequence[Event], started: Mapping[str, Any], head: str) -> dict[str, Any]:
    found, claimed = counts(events), claimed_answer(events)
    return {
        **({} if claimed is None else {"claimed_answer": _claim(claimed)}),
        "problem": started.get("problem"),
        "end_reason": end_reason(events),
        "chain_head": head,
        "tool_calls": {"model_emitted": found.model_emitted, "scripted": found.scripted},
        "failed_model_calls": sum(e.kind == "model_call" and "response" not in e.body for e in events),
        "refused_requests": sum(e.kind == "refused" for e in events),
    }


def _claim(claimed: ClaimedAnswer) -> dict[str, Any]:
    return {
        "function_name": claimed.name,
        "arguments": claimed.arguments,
        "model_emitted": claimed.emitted,
    }


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
