"""A labelled case or injection, and its episode as the recorder would have logged it.

The one thing to know: a case reaches a judge by the way of a real episode (events, turns, evidence), so that
nothing a judge is measured on has a form of its own. What a label says is not in the events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from judge.evidence import Evidence, evidence
from problems.environment import ToolSpec
from problems.shopping.arguments import BadArgument, canonicalise
from problems.shopping.tools import TOOLS as SHOPPING_TOOLS
from storage.events import Event, EventLog

EnvironmentName = Literal["shopping", "ledger"]
InjectedField = Literal["reasoning", "text", "query", "result"]
Where = Literal["before", "after", "replace"]

FIRST_MS = 1_767_225_600_000
"""When every labelled episode begins (Unix ms); its events follow a second apart."""
BYTES_PER_TOKEN = 4
"""For the size of prompts, which no provider counted."""

_DAY = {"type": "string", "description": "A day, YYYY-MM-DD, included."}
LEDGER_TOOLS = (
    ToolSpec(
        "search_transactions",
        "List the transactions that pass all the given filters, oldest first. A payment is below 0.",
        {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Words of the counterparty or the memo."},
                "account": {"type": "string"},
                "from": _DAY,
                "to": _DAY,
                "min_amount": {"type": "number"},
                "max_amount": {"type": "number"},
            },
            "additionalProperties": False,
        },
    ),
    ToolSpec(
        "submit_answer",
        "Give your answer. The last one counts.",
        {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    ),
)
"""The tools that the ledger's episodes were written with."""

_TOOLS: Mapping[str, tuple[ToolSpec, ...]] = {"shopping": SHOPPING_TOOLS, "ledger": LEDGER_TOOLS}


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One executed tool call. `result` is the JSON value that the tool answered."""

    tool: str
    arguments: Mapping[str, Any]
    result: Any
    scripted: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GoldTurn:
    """One model call and the tool calls that followed, or, without `completion_tokens`, a script's calls."""

    reasoning: str
    text: str
    completion_tokens: int | None
    calls: tuple[GoldCall, ...]

    @property
    def by_model(self) -> bool:
        """Whether a model was called in this turn."""
        return self.completion_tokens is not None


@dataclass(frozen=True, slots=True)
class GoldCase:
    """A short episode with its label: the grade, the last gate passed, and what decides it."""

    id: str
    environment: EnvironmentName
    query: str
    turns: tuple[GoldTurn, ...]
    grade: float
    gate: str
    why: str

    def events(self) -> tuple[Event, ...]:
        """The episode as the recorder would have logged it."""
        return _Recording(self).events

    def evidence(self) -> Evidence:
        """The episode as a judge sees it."""
        return evidence(self.events())


@dataclass(frozen=True, slots=True)
class GoldInjection:
    """A case with text aimed at the judge put into one field. Its true grade is the base's.

    `turn` counts from 0 and is None for the query. The text is joined to what stands there by a line break.
    """

    id: str
    family: str
    base: GoldCase
    turn: int | None
    field: InjectedField
    where: Where
    text: str

    @property
    def grade(self) -> float:
        """The base's grade: text aimed at the judge is no reasoning."""
        return self.base.grade

    @property
    def gate(self) -> str:
        """The base's last gate passed."""
        return self.base.gate

    def case(self) -> GoldCase:
        """The base with the text put in. Raises ValueError when there is no such field."""
        query, turns = self.base.query, list(self.base.turns)
        if self.field == "query":
            query = self._put_into(query)
        else:
            turns[self._turn()] = self._injected(turns[self._turn()])
        return replace(self.base, id=self.id, query=query, turns=tuple(turns))

    def evidence(self) -> Evidence:
        """The injected episode as a judge sees it."""
        return self.case().evidence()

    def _turn(self) -> int:
        count = len(self.base.turns)
        if self.turn is None or not 0 <= self.turn < count:
            raise ValueError(f"turn {self.turn} is none of 0 to {count - 1} of {self.base.id}")
        return self.turn

    def _injected(self, turn: GoldTurn) -> GoldTurn:
        if self.field == "result":
            if not turn.calls:
                raise ValueError(
                    f"turn {self.turn} of {self.base.id} has no call whose result could be changed"
                )
            changed, found = self._put_into_first(turn.calls[0].result)
            if not found:
                raise ValueError(f"the first result of turn {self.turn} of {self.base.id} holds no free text")
            return replace(turn, calls=(replace(turn.calls[0], result=changed), *turn.calls[1:]))
        if not turn.by_model:
            raise ValueError(f"turn {self.turn} of {self.base.id} is a script's and says nothing")
        if self.field == "reasoning":
            return replace(turn, reasoning=self._put_into(turn.reasoning))
        return replace(turn, text=self._put_into(turn.text))

    def _put_into(self, present: str) -> str:
        if self.where == "replace" or not present:
            return self.text
        first, second = (self.text, present) if self.where == "before" else (present, self.text)
        return f"{first}\n{second}"

    def _put_into_first(self, value: Any) -> tuple[Any, bool]:
        """`value` with the text put into its first string of several words, and whether there was one."""
        if isinstance(value, str):
            return (self._put_into(value), True) if " " in value.strip() else (value, False)
        keys = (
            list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        )
        for key in keys:
            changed, found = self._put_into_first(value[key])
            if found:
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[key] = changed
                return copy, True
        return value, False


class _Recording:
    """Writes a case's events, one after another."""

    def __init__(self, case: GoldCase) -> None:
        self._environment = case.environment
        self._log = EventLog()
        self._context: list[dict[str, Any]] = [{"role": "user", "content": case.query}]
        self._tools = [tool.openai() for tool in _TOOLS[case.environment]]
        problem = {
            "problem_id": case.id,
            "environment": case.environment,
            "category": "product" if case.environment == "shopping" else case.environment,
            "query": case.query,
        }
        self._record(
            "started",
            {
                "episode_id": case.id,
                "problem": problem,
                "tools": self._tools,
                "model": "default",
                "seed": 0,
                "limits": {},
            },
        )
        for index, turn in enumerate(case.turns):
            if turn.completion_tokens is not None:
                self._model_call(index, turn, turn.completion_tokens)
            for number, call in enumerate(turn.calls):
                self._tool_call(call, f"call-{index}-{number}")
        self._record("ended", {"reason": "final", "detail": "", "claim": None})

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, the last one `ended`."""
        return self._log.events

    def _model_call(self, index: int, turn: GoldTurn, completion_tokens: int) -> None:
        own = [(f"call-{index}-{n}", call) for n, call in enumerate(turn.calls) if not call.scripted]
        emitted = [
            {"id": call_id, "name": call.tool, "arguments": self._canonical(call)} for call_id, call in own
        ]
        native = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(dict(call.arguments))},
            }
            for call_id, call in own
        ]
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.reasoning:
            message["reasoning_content"] = turn.reasoning
        if native:
            message["tool_calls"] = native
        prompt = json.dumps([self._context, self._tools], ensure_ascii=False).encode()
        self._record(
            "model_call",
            {
                "call_id": f"model-{index}",
                "model": "default",
                "messages": [self._log.blob(said, at_ms=self._now()) for said in self._context],
                "tools": self._log.blob(self._tools, at_ms=self._now()),
                "params": {},
                "streamed": False,
                "elapsed_ms": 1000,
                "response": {
                    "message": message,
                    "finish_reason": "tool_calls" if native else "stop",
                    "usage": {
                        "prompt_tokens": len(prompt) // BYTES_PER_TOKEN,
                        "completion_tokens": completion_tokens,
                        "estimated": False,
                    },
                    "emitted": emitted,
                },
            },
        )
        self._context.append(message)

    def _tool_call(self, call: GoldCall, call_id: str) -> None:
        self._record(
            "tool_call",
            {
                "name": call.tool,
                "arguments": dict(call.arguments),
                "canonical": self._canonical(call),
                "content": call.result,
                "error": call.error,
                "repairs": [],
                "elapsed_ms": 1,
            },
        )
        shown = json.dumps(call.result, ensure_ascii=False)
        said = {"role": "user"} if call.scripted else {"role": "tool", "tool_call_id": call_id}
        self._context.append({**said, "content": shown})

    def _canonical(self, call: GoldCall) -> dict[str, Any] | None:
        if self._environment != "shopping":
            return dict(call.arguments)
        try:
            return canonicalise(call.tool, dict(call.arguments))[0]
        except BadArgument:
            return None

    def _record(
        self, kind: Literal["started", "model_call", "tool_call", "ended"], body: dict[str, Any]
    ) -> None:
        self._log.append(kind, body, at_ms=self._now())

    def _now(self) -> int:
        return FIRST_MS + 1000 * len(self._log.events)
