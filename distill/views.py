"""One training row per clean step: the prompt a model call had, and what the model answered.

Both are text, rendered with the serving template, so that training sees the bytes that serving will see. The
messages are exactly those of the recorded call; the tools are the episode's own, because one schema must
serve every stage, the evaluation and the server.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from distill import normalize
from distill.filters import CleanStep, model_turns, offered_tools, step_or_fault
from distill.templates import CONTROL_TOKENS, END_OF_TURN, ChatTemplate

if TYPE_CHECKING:
    from storage.traces import StoredTrace


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row to train on or to evaluate with. `prompt + completion` is the text of the whole conversation."""

    trace_id: str
    step: int
    """Number of the model turn within its trace, from 0."""
    problem_id: str
    cluster_id: str
    category: str
    grade: float | None
    tools_hash: str
    prompt: str
    """Ends with the opening of the assistant's turn."""
    completion: str
    """Begins with `<think>`, ends with the end-of-turn token."""
    calls: tuple[tuple[str, str], ...]
    """(name, arguments as canonical JSON text) of each call of the completion."""

    @property
    def key(self) -> str:
        """Equal for rows that would train the same text."""
        return hashlib.sha256(f"{self.prompt}\0{self.completion}".encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StepRow:
        """The inverse of `to_json`. Raises TypeError on a missing or unknown field."""
        return cls(**{**value, "calls": tuple((name, text) for name, text in value["calls"])})


@dataclass(slots=True)
class RowReport:
    """How many steps became rows, and how many were left out, and why."""

    steps: int = 0
    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """`{"steps", "rows", "dropped": {reason: n}}`."""
        return {"steps": self.steps, "rows": self.rows, "dropped": dict(sorted(self.dropped.items()))}


class StepRows:
    """Turns traces into rows, dropping unclean, over-long and repeated steps, and counting each drop."""

    def __init__(self, template: ChatTemplate, *, max_bytes: int) -> None:
        self.report = RowReport()
        self.tools: dict[str, tuple[dict[str, Any], ...]] = {}
        """Canonical tools by hash, of all rows so far."""
        self._template = template
        self._max_bytes = max_bytes
        self._seen: set[str] = set()

    def rows(self, trace: StoredTrace) -> Iterator[StepRow]:
        """The rows of one trace. Raises BrokenChain when its log lacks a message."""
        tools = offered_tools(trace)
        for number, turn in enumerate(model_turns(trace)):
            self.report.steps += 1
            step = step_or_fault(turn, tools)
            if isinstance(step, str):
                self.report.dropped[step] += 1
                continue
            row = self._row(trace, number, step, tools)
            if isinstance(row, str):
                self.report.dropped[row] += 1
                continue
            self._seen.add(row.key)
            self.tools.setdefault(row.tools_hash, tools)
            self.report.rows += 1
            yield row

    def _row(
        self, trace: StoredTrace, number: int, step: CleanStep, tools: tuple[dict[str, Any], ...]
    ) -> StepRow | str:
        context = [normalize.message(given) for given in step.turn.messages]
        answer = {
            "role": "assistant",
            "content": step.turn.text,
            "reasoning_content": step.turn.reasoning,
            "tool_calls": [normalize.tool_call(call.name, call.arguments or {}) for call in step.calls],
        }
        if _forges_a_turn([*context, answer]):
            return "control token in text"
        prompt = self._template.render(context, tools, add_generation_prompt=True)
        whole = self._template.render([*context, answer], tools)
        if not whole.startswith(prompt):
            return "prompt is not a prefix"
        # What the template writes after the end of the turn is never generated, so it is not trained either.
        completion = whole[len(prompt) :].removesuffix("\n")
        if not completion.endswith(END_OF_TURN):
            return "prompt is not a prefix"
        if len(prompt.encode()) + len(completion.encode()) > self._max_bytes:
            return "over-long"
        row = StepRow(
            trace_id=str(trace.trace_id),
            step=number,
            problem_id=trace.problem_id,
            cluster_id=trace.cluster_id,
            category=trace.category,
            grade=trace.judgement.grade if trace.judgement else None,
            tools_hash=normalize.tools_hash(tools),
            prompt=prompt,
            completion=completion,
            calls=tuple((call.name, normalize.arguments_text(call.arguments or {})) for call in step.calls),
        )
        return "duplicate" if row.key in self._seen else row


def _forges_a_turn(messages: list[dict[str, Any]]) -> bool:
    return any(
        token in text
        for message in messages
        for text in (
            message["content"],
            message.get("reasoning_content", ""),
            *(call["function"]["arguments"] for call in message.get("tool_calls", ())),
        )
        for token in CONTROL_TOKENS
    )
