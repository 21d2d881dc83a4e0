"""An LLM judge's reply, believed only as far as it can be checked.

The grade is no part of a reply: it follows from the gates, by code. A gate is passed only with a quote that
really stands in the step it names. A quote that does not is the judge's error and not the agent's, so it
makes the reply malformed (asked again once, then an abstention) rather than the gate failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge.evidence import Evidence, EvidenceStep
from judge.judgement import Citation
from judge.neutral import find_quote
from judge.prompt import Marks
from judge.rubric import Rubric

MAX_REPLY_CHARS = 64 * 1024
MIN_QUOTE_CHARS = 12
"""A shorter quote stands anywhere by chance; what a step says in less may be quoted whole."""
MAX_QUOTE_CHARS = 600
MAX_WHY_CHARS = 1000


class MalformedReply(ValueError):
    """The reply is not in the form that was asked for. The message repeats nothing of the reply."""


class FollowedEvidence(ValueError):
    """The reply does what text in the evidence says: its judge's opinion is worth nothing here."""


@dataclass(frozen=True, slots=True)
class GateOpinion:
    """What a judge says of one gate. `citation` is None for a gate that is not passed without a quote."""

    name: str
    passed: bool
    why: str
    citation: Citation | None

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        cited = None if self.citation is None else self.citation.to_json()
        return {"name": self.name, "passed": self.passed, "why": self.why, "citation": cited}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateOpinion:
        """From what `to_json` gave."""
        cited = value["citation"]
        return cls(value["name"], value["passed"], value["why"], None if cited is None else Citation(**cited))


def passed_gates(gates: tuple[GateOpinion, ...]) -> int:
    """How many gates were passed before the first that was not: what the grade follows from."""
    return next((n for n, gate in enumerate(gates) if not gate.passed), len(gates))


class _Gate(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    passed: bool
    quote: str = Field(max_length=MAX_QUOTE_CHARS)
    step: int | None
    why: str = Field(max_length=MAX_WHY_CHARS)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    nonce: str
    gates: list[_Gate] = Field(max_length=64)


def read_reply(text: str, *, evidence: Evidence, rubric: Rubric, marks: Marks) -> tuple[GateOpinion, ...]:
    """The gates as the reply has them, checked against the evidence. Pure.

    Raises FollowedEvidence when the canary shows that the judge obeyed the evidence, MalformedReply for
    whatever else is wrong.
    """
    if marks.decoy in text:
        raise FollowedEvidence("it repeats what only a line inside the evidence asked for")
    reply = _parsed(text)
    if reply.nonce != marks.nonce:
        raise FollowedEvidence("it does not repeat the nonce of its instructions")
    names = [gate.name for gate in rubric.gates]
    if [gate.name for gate in reply.gates] != names:
        raise MalformedReply(f'"gates" must be exactly these, in this order: {", ".join(names)}')
    steps = {step.position: step for step in evidence.steps if step.by_model}
    return tuple(_checked(gate, steps) for gate in reply.gates)


def _parsed(text: str) -> _Reply:
    if len(text) > MAX_REPLY_CHARS:
        raise MalformedReply(f"it is longer than {MAX_REPLY_CHARS} characters")
    try:
        value = json.loads(_without_block(text), object_pairs_hook=_object, parse_constant=_no_constant)
        return _Reply.model_validate(value)
    except json.JSONDecodeError as error:
        raise MalformedReply(f"not JSON at character {error.pos}: {error.msg}") from None
    except ValidationError as error:
        found = "; ".join(f"{_place(e['loc'])}: {e['type']}" for e in error.errors()[:3])
        raise MalformedReply(f"not the form that was asked for ({found})") from None
    except (ValueError, RecursionError):
        raise MalformedReply(
            "JSON with duplicate keys, nested too deeply, or with numbers that are none"
        ) from None


def _without_block(text: str) -> str:
    """A reply without the one code block that it is wrapped in, if it is."""
    bare = text.strip()
    opening, newline, rest = bare.partition("\n")
    wrapped = newline and opening.rstrip() in ("```", "```json") and rest.endswith("```")
    return rest.removesuffix("```") if wrapped else text


def _checked(gate: _Gate, steps: Mapping[int, EvidenceStep]) -> GateOpinion:
    if not gate.quote.strip() and not gate.passed:
        return GateOpinion(gate.name, False, gate.why, None)
    step = None if gate.step is None else steps.get(gate.step)
    span = None if step is None else find_quote(gate.quote, step.spoken)
    if step is None or span is None:
        if not gate.passed:
            return GateOpinion(gate.name, False, gate.why, None)
        raise MalformedReply(
            f'the "quote" of gate {gate.name} does not stand in the reasoning or text of the step it names'
        )
    start, end = span
    if gate.passed and end - start < min(MIN_QUOTE_CHARS, len(step.spoken.strip())):
        raise MalformedReply(f'the "quote" of gate {gate.name} is shorter than {MIN_QUOTE_CHARS} characters')
    cited = Citation(gate.name, step.position, start, end, step.spoken[start:end], gate.why)
    return GateOpinion(gate.name, gate.passed, gate.why, cited)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate keys")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _place(loc: tuple[int | str, ...]) -> str:
    """Where in a reply, without the names that only the reply knows: it may have them from the evidence."""
    known = _Reply.model_fields.keys() | _Gate.model_fields.keys()
    return (
        ".".join(str(part) if isinstance(part, int) or part in known else "?" for part in loc) or "all of it"
    )
