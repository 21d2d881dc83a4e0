"""What a judge may see of an episode, and nothing else.

The types here are the blindfold: they have no field for an outcome, an answer key, a hotkey, an agent's or a
model's name, or the id of a problem or an episode, so no judge can be swayed by one. Evidence is built from
the recorder's events alone; two episodes that differ only in identity and time give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from storage.events import Event
from storage.turns import ClaimedAnswer, ModelTurn, ScriptedTurn, ToolRecord, claimed_answer, turns

ONLY_CLAIMED = "Not executed: the agent returned this as its answer."
"""The result of an answer that no tool call gave."""


class NoEvidence(ValueError):
    """The events do not hold what a judgement needs."""


@dataclass(frozen=True, slots=True)
class EvidenceCall:
    """One executed tool call with its result; or the answer that was only claimed, saying so as its result.

    `arguments` are canonical (None when they were not understood), `emitted` says whether the model emitted
    the call itself, `position` is its place among all model and tool calls of the episode: a result can only
    have been known to reasoning of a higher position.
    """

    name: str
    arguments: Mapping[str, Any] | None
    emitted: bool
    result: Any
    error: str | None
    position: int


@dataclass(frozen=True, slots=True)
class EvidenceStep:
    """One model call (`by_model`) or one call of the script alone.

    `reasoning` and `text` are what the model wrote before acting; both are empty for a scripted step.
    Token counts are the provider's; None when it gave none.
    """

    position: int
    by_model: bool
    reasoning: str
    text: str
    calls: tuple[EvidenceCall, ...]
    prompt_tokens: int | None
    completion_tokens: int | None

    @property
    def spoken(self) -> str:
        """Reasoning and text as one; citations count characters in it."""
        return "\n".join(part for part in (self.reasoning, self.text) if part)


@dataclass(frozen=True, slots=True)
class Evidence:
    """An episode as a judge sees it: the query, the tools that were offered (OpenAI form), and the steps."""

    query: str
    tools: tuple[Mapping[str, Any], ...]
    steps: tuple[EvidenceStep, ...]

    def to_bytes(self) -> bytes:
        """The evidence as canonical JSON: equal evidence gives equal bytes."""
        return json.dumps(
            asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()

    @property
    def evidence_hash(self) -> str:
        """SHA-256 (hex) of `to_bytes`."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def calls(self) -> list[EvidenceCall]:
        """All tool calls in the order they were executed."""
        return sorted((call for step in self.steps for call in step.calls), key=lambda call: call.position)


def evidence(events: Sequence[Event]) -> Evidence:
    """The evidence of an episode, from its recorder events.

    Raises NoEvidence when the events have no `started` event with a query, and storage.events.BrokenChain
    when a model call refers to a blob that is not there.
    """
    started = next((event.body for event in events if event.kind == "started"), None)
    query = (started or {}).get("problem", {}).get("query")
    if started is None or not isinstance(query, str):
        raise NoEvidence("the events hold no `started` event with the problem's query; nothing can be judged")
    found, claimed = turns(events), claimed_answer(events)
    seqs = {turn.seq for turn in found} | {record.seq for turn in found for record in turn.tool_records}
    seqs |= set() if claimed is None else {claimed.seq}
    positions = {seq: position for position, seq in enumerate(sorted(seqs))}
    steps = tuple(_step(turn, positions, claimed) for turn in found)
    if claimed is not None and not claimed.emitted:
        position = positions[claimed.seq]
        steps += (EvidenceStep(position, False, "", "", (_claim(claimed, position),), None, None),)
    return Evidence(query, tuple(started.get("tools") or ()), steps)


def _step(
    turn: ModelTurn | ScriptedTurn, positions: Mapping[int, int], claimed: ClaimedAnswer | None
) -> EvidenceStep:
    calls = tuple(_call(record, positions) for record in turn.tool_records)
    if claimed is not None and claimed.emitted_by == turn.seq:
        calls += (_claim(claimed, positions[claimed.seq]),)
    if isinstance(turn, ScriptedTurn):
        return EvidenceStep(positions[turn.seq], False, "", "", calls, None, None)
    return EvidenceStep(
        position=positions[turn.seq],
        by_model=True,
        reasoning=turn.reasoning,
        text=turn.text,
        calls=calls,
        prompt_tokens=_count(turn.usage.get("prompt_tokens")),
        completion_tokens=_count(turn.usage.get("completion_tokens")),
    )


def _claim(claimed: ClaimedAnswer, position: int) -> EvidenceCall:
    return EvidenceCall(claimed.name, claimed.arguments, claimed.emitted, ONLY_CLAIMED, None, position)


def _call(record: ToolRecord, positions: Mapping[int, int]) -> EvidenceCall:
    return EvidenceCall(
        name=record.name,
        arguments=record.arguments,
        emitted=record.emitted,
        result=record.content,
        error=record.error,
        position=positions[record.seq],
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
