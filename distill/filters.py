"""Which traces may enter a corpus: five filters in a fixed order, each a pure function of the trace.

A trace is dropped by the first filter that it fails, so the counts of a funnel add up. The same functions
decide which traces earn credit in a race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from distill import completion, normalize
from storage.events import BrokenChain, verify
from storage.turns import ModelTurn, counts, end_reason, plain_text, turns

if TYPE_CHECKING:
    from storage.traces import StoredTrace


class FilterConfig(BaseModel):
    """What the filters ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_grade: float = Field(default=0.8, ge=0.0, le=1.0)
    """Lowest grade of reasoning, 0 to 1. At 0.8 a judge's coefficient is 1."""
    final_reasons: tuple[str, ...] = ("final",)
    """The end reasons that mean an episode was ended by its final call."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a trace was left out. `reason` is one of a few fixed phrases, so that it can be counted."""

    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class CleanStep:
    """A model turn whose calls were all understood, fitted the schema, and were executed without an error."""

    turn: ModelTurn
    calls: tuple[completion.Call, ...]


def drop(trace: StoredTrace, config: FilterConfig) -> Drop | None:
    """The first filter that `trace` fails, or None when it passes them all."""
    for name, judge in FILTERS.items():
        if reason := judge(trace, config):
            return Drop(name, reason)
    return None


def accepts(trace: StoredTrace, config: FilterConfig) -> bool:
    """Whether `trace` may enter a corpus."""
    return drop(trace, config) is None


def agentic(trace: StoredTrace, config: FilterConfig) -> str | None:
    """Every tool call was emitted by the model, and there was one."""
    found = counts(trace.events)
    if not found.model_emitted:
        return "only scripted tool calls" if found.scripted else "no tool call"
    return "some scripted tool calls" if found.scripted else None


def complete(trace: StoredTrace, config: FilterConfig) -> str | None:
    """The events are the recorded ones, and the episode was ended by its final call."""
    try:
        if verify(trace.events) != trace.chain_head:
            return "broken chain"
    except BrokenChain:
        return "broken chain"
    reason = end_reason(trace.events)
    return None if reason in config.final_reasons else f"ended by {reason}"


def valid(trace: StoredTrace, config: FilterConfig) -> str | None:
    """At least one step is clean. A step that is not is left out on its own; the rest of its trace stays."""
    tools = offered_tools(trace)
    try:
        clean = any(isinstance(step_or_fault(turn, tools), CleanStep) for turn in model_turns(trace))
    except BrokenChain:
        return "broken chain"
    return None if clean else "no clean step"


def solved(trace: StoredTrace, config: FilterConfig) -> str | None:
    """The rules found the answer right."""
    return None if trace.verdict == "solved" else trace.verdict


def gated(trace: StoredTrace, config: FilterConfig) -> str | None:
    """A judge graded the reasoning, and high enough. A judge that could not answer is not a low grade."""
    if trace.judgement is None or trace.judgement.grade is None:
        return "unjudged"
    return None if trace.judgement.grade >= config.min_grade else "grade too low"


FILTERS: Mapping[str, Callable[[StoredTrace, FilterConfig], str | None]] = {
    "agentic": agentic,
    "complete": complete,
    "valid": valid,
    "solved": solved,
    "gated": gated,
}
"""The filters in order. Each gives the reason for a drop, or None."""


def model_turns(trace: StoredTrace) -> tuple[ModelTurn, ...]:
    """The answered model calls of a trace. Raises BrokenChain when the log lacks a message."""
    return tuple(turn for turn in turns(trace.events) if isinstance(turn, ModelTurn))


def offered_tools(trace: StoredTrace) -> tuple[dict[str, Any], ...]:
    """The canonical tools of the episode, as its environment defined them."""
    for event in trace.events:
        if event.kind == "started":
            return normalize.tools(event.body.get("tools") or ())
    return ()


def step_or_fault(turn: ModelTurn, tools: Sequence[Mapping[str, Any]]) -> CleanStep | str:
    """The step when it is clean, else why it is not, in one of a few fixed phrases."""
    calls = _written_calls(turn)
    if not calls:
        return "no tool call"
    if turn.finish_reason == "length":
        return "cut off"
    if any(emitted["arguments"] is None for emitted in turn.emitted) or len(calls) != len(turn.emitted):
        return "call not understood"
    if any(completion.fault(call, tools) for call in calls):
        return "call does not fit the schema"
    if len(turn.tool_records) != len(calls):
        return "call not executed"
    if any(record.error is not None for record in turn.tool_records):
        return "call answered with an error"
    if any(record.repairs for record in turn.tool_records):
        return "call repaired"
    return CleanStep(turn, calls)


@dataclass(slots=True)
class Funnel:
    """How many traces came in, and how many each filter dropped, and why."""

    seen: int = 0
    kept: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)

    def count(self, found: Drop | None) -> None:
        """Count one trace, with what `drop` said of it."""
        self.seen += 1
        if found is None:
            self.kept += 1
        else:
            self.dropped[found] += 1

    def to_json(self) -> dict[str, Any]:
        """`{"in", "filters": [{"filter", "in", "dropped", "reasons": {reason: n}}, ...], "kept"}`."""
        left, filters = self.seen, []
        for name in FILTERS:
            reasons = {d.reason: n for d, n in sorted(self.dropped.items(), key=str) if d.filter == name}
            filters.append({"filter": name, "in": left, "dropped": sum(reasons.values()), "reasons": reasons})
            left -= sum(reasons.values())
        return {"in": self.seen, "filters": filters, "kept": self.kept}


def _written_calls(turn: ModelTurn) -> tuple[completion.Call, ...]:
    """The calls as the model wrote them: native ones, else tagged blocks of the content."""
    native = turn.message.get("tool_calls")
    if not native:
        return completion.parse(plain_text(turn.message.get("content"))).calls
    found = []
    for call in native:
        values = normalize.arguments(call["function"].get("arguments"))
        found.append(
            completion.Call(
                str(call["function"].get("name")), values, None if values is not None else "not JSON"
            )
        )
    return tuple(found)
