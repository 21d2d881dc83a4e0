"""The deterministic judge: the rubric's gates, checked by code against the evidence.

It believes nothing that it cannot look up: a statement counts only if a tool result that came *before* the
reasoning bears it out, so instructions, flattery or pasted material in an agent's text have nothing to act
on. It is free and gives equal grades for equal evidence.

It knows no environment. Results are read by their structure (see `judge.seen`). A call *answers* when its
tool was only ever acknowledged (a line of text came back, no record) and its arguments are free: no value is
drawn from a list of the tool's schema, as the status of a `terminate` is. The last one is the answer; what
was *chosen* are the records whose ids stand in its arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.claims import Reader
from judge.closing import decided_in, untracked
from judge.comparing import comparison
from judge.evidence import Evidence, EvidenceCall, EvidenceStep
from judge.figures import Sum
from judge.judgement import Citation, Judgement
from judge.lexicon import RETRACTION
from judge.remarks import remark
from judge.rubric import MIN_WORKING_TOKENS, RUBRIC, Rubric
from judge.seen import Seen, records_of, words_of
from judge.spans import Span
from judge.statements import Claim, Mark, Statement

NAME = "grounded-2"
"""Changes with any change of what this judge accepts."""

CITED_DATA = 2
"""Distinct data that must be cited."""
ACKNOWLEDGEMENT_CHARS = 200
"""A tool that answers with so short a line has looked nothing up."""
RETRACTED_WITHIN = 60
"""A word of correction takes back what stands at most so many characters before it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A model step and what it says, read against what results had shown by then."""

    step: EvidenceStep
    statements: tuple[Statement, ...]
    records_before: int


@dataclass(frozen=True, slots=True)
class _Episode:
    """What the gates look at. `whole` is all that results showed, `wrong` what was never put right."""

    evidence: Evidence
    heard: tuple[Heard, ...]
    whole: Seen
    wrong: tuple[tuple[EvidenceStep, Claim], ...]


@dataclass(frozen=True, slots=True)
class _Ruling:
    """Whether a gate was passed, why, and the spans that decided it."""

    passed: bool
    why: str
    citations: tuple[Citation, ...] = ()


class GroundedJudge:
    """The deterministic judge as a `Judge`."""

    name = NAME

    def __init__(self, rubric: Rubric = RUBRIC) -> None:
        """Raises ValueError for a rubric with a gate that is not checked here."""
        unchecked = [gate.name for gate in rubric.gates if gate.name not in _GATES]
        if unchecked:
            raise ValueError(
                f"the grounded judge has no check for {', '.join(unchecked)}; give another judge"
            )
        self.gates = rubric

    @property
    def rubric(self) -> str:
        """The id of the rubric it grades by."""
        return self.gates.id

    async def judge(self, evidence: Evidence) -> Judgement:
        """Grade one episode, in a thread: a long one takes a second or two of computing."""
        return await asyncio.to_thread(judge, evidence, self.gates)


def judge(evidence: Evidence, rubric: Rubric = RUBRIC) -> Judgement:
    """Grade one episode. Pure: equal evidence gives an equal judgement."""
    episode = _listen(evidence)
    citations: list[Citation] = []
    passed, why = 0, ""
    for gate in rubric.gates:
        ruling = _GATES[gate.name](episode)
        citations.extend(ruling.citations)
        why = f"{gate.name}: {ruling.why}"
        if not ruling.passed:
            break
        passed += 1
    grade = rubric.grade_after(passed)
    stopped = "all gates passed" if passed == len(rubric.gates) else "stopped"
    return Judgement(
        grade=grade,
        gate=rubric.gate_after(passed),
        rationale=f"{passed} of {len(rubric.gates)} gates; {stopped} at {why}",
        citations=tuple(citations),
        votes=(grade,),
        disagreement=0.0,
        rubric=rubric.id,
        judge=NAME,
    )


def _listen(evidence: Evidence) -> _Episode:
    """Read every model step against the results of the calls before it."""
    calls = [call for call in evidence.calls() if call.error is None]
    whole = Seen()
    for call in calls:
        whole.add(call.result)
    reader, seen = Reader(evidence.query, whole), Seen()
    heard: list[Heard] = []
    waiting = list(calls)
    for step in sorted(evidence.steps, key=lambda step: step.position):
        if not step.by_model:
            continue
        while waiting and waiting[0].position < step.position:
            seen.add(waiting.pop(0).result)
        said = tuple(reader.statements(step.spoken, seen)) if seen.results else ()
        heard.append(Heard(step, said, len(seen.records)))
    return _Episode(evidence, tuple(heard), whole, tuple(_never_put_right(heard)))


def _never_put_right(heard: Sequence[Heard]) -> Iterator[tuple[EvidenceStep, Claim]]:
    """The claims against the results that were neither withdrawn at once nor put right later on."""
    later: set[tuple[str, str]] = set()
    resolved: set[str] = set()
    left: list[tuple[EvidenceStep, Claim]] = []
    for h in reversed(heard):
        for said in reversed(h.statements):
            for claim in said.claims:
                after = h.step.spoken[claim.span.end : claim.span.end + RETRACTED_WITHIN]
                here = {_terms(s) for s in said.sums if s.right and s.span.start >= claim.span.end}
                put_right = (claim.record, claim.aspect) in later or claim.aspect in resolved | here
                if not put_right and not RETRACTION.search(after):
                    left.append((h.step, claim))
            later |= said.settled
            resolved |= {_terms(s) for s in said.sums if s.right}
    return reversed(left)


def _terms(done: Sum) -> str:
    """The operands of an expression, as a claim about it names them."""
    return "+".join(sorted(f"{f.value:g}" for f in done.operands))


def _worked(episode: _Episode) -> _Ruling:
    longest = max(episode.heard, key=lambda h: _tokens(h.step), default=None)
    if longest is None:
        return _Ruling(False, "no model took part")
    tokens = _tokens(longest.step)
    if tokens < MIN_WORKING_TOKENS:
        return _Ruling(
            False, f"the longest model call has {tokens} completion tokens, under {MIN_WORKING_TOKENS}"
        )
    span = Span(0, min(len(longest.step.spoken), 80))
    note = f"{tokens} completion tokens"
    return _Ruling(True, note, (_cite("worked", longest.step, span, note),))


def _analysed(episode: _Episode) -> _Ruling:
    tools = {str(tool.get("function", {}).get("name", "")) for tool in episode.evidence.tools}
    for h in episode.heard:
        for said in h.statements:
            note = remark(said, tools, h.records_before > 0)
            if note is not None:
                return _Ruling(True, note, (_cite("analysed", h.step, said.span, note),))
    return _Ruling(False, "nothing that was written after a result says anything of a result")


def _cited(episode: _Episode) -> _Ruling:
    marks: dict[tuple[str, frozenset[str]], tuple[EvidenceStep, Mark]] = {}
    for h in episode.heard:
        for said in h.statements:
            for mark in said.data():
                marks.setdefault((mark.value, mark.owners), (h.step, mark))
    wrong = [(step, claim) for step, claim in episode.wrong if claim.kind != "arithmetic"]
    substance = [mark for _, mark in marks.values() if mark.kind != "id"]
    citations = tuple(
        _cite("cited", step, mark.span, f"{mark.kind} of {min(mark.owners)} stands in the results")
        for step, mark in list(marks.values())[:6]
    ) + tuple(_cite("cited", step, claim.span, _against(claim)) for step, claim in wrong[:3])
    tally = f"{len(marks)} data cited, {len(substance)} more than an id, {len(wrong)} against the results"
    passed = bool(substance) and len(marks) - 2 * len(wrong) >= CITED_DATA
    return _Ruling(passed, tally, citations)


def _compared(episode: _Episode) -> _Ruling:
    for h in episode.heard:
        found = comparison(h.statements, episode.whole)
        if found is not None:
            span, note = found
            return _Ruling(True, note, (_cite("compared", h.step, span, note),))
    return _Ruling(False, "no passage sets two candidates against one another with a reason that holds")


def _tracked(episode: _Episode) -> _Ruling:
    answer = _answer(episode.evidence)
    if answer is None:
        return _Ruling(False, "no answer was given, so nothing was tracked to the end")
    before = [h for h in episode.heard if h.step.position <= answer.position]
    closing = decided_in([h.statements for h in before])
    if closing is None:
        return _Ruling(False, "the reasoning that decides the answer says nothing of the results")
    step = before[closing].step
    if episode.wrong:
        where, claim = episode.wrong[0]
        return _Ruling(False, _against(claim), (_cite("tracked", where, claim.span, _against(claim)),))
    said = [s for h in before[closing:] for s in h.statements]
    argued = {k: v for k, v in (answer.arguments or {}).items() if isinstance(v, (str, int, float, list))}
    missing = next(untracked(episode.evidence.query, argued, said, episode.whole), None)
    span = Span(0, min(len(step.spoken), 160))
    note = missing or "every constraint is checked where the answer is decided"
    return _Ruling(missing is None, note, (_cite("tracked", step, span, note),))


_GATES: dict[str, Callable[[_Episode], _Ruling]] = {
    "worked": _worked,
    "analysed": _analysed,
    "cited": _cited,
    "compared": _compared,
    "tracked": _tracked,
}


def _against(claim: Claim) -> str:
    if claim.kind == "arithmetic":
        return f"works out {claim.said}, and the figures give {claim.found}"
    return f"says {claim.said} of {claim.record or 'a result'}, the results say {claim.found}"


def _answer(evidence: Evidence) -> EvidenceCall | None:
    """The call that answers, told from the evidence alone; see the head of this module."""
    calls = [call for call in evidence.calls() if call.error is None]
    looked_up = {call.name for call in calls if not _acknowledges(call.result)}
    listed = {name for name in (call.name for call in calls) if _takes_listed_values(evidence.tools, name)}
    answers = [call for call in calls if call.name not in looked_up | listed and call.arguments]
    return answers[-1] if answers else None


def _acknowledges(result: Any) -> bool:
    if isinstance(result, str):
        return len(result) <= ACKNOWLEDGEMENT_CHARS
    return isinstance(result, Mapping) and bool(result) and not any(True for _ in records_of(result))


def _takes_listed_values(tools: Sequence[Mapping[str, Any]], name: str) -> bool:
    for tool in tools:
        function = tool.get("function", {})
        if function.get("name") == name:
            properties = function.get("parameters", {}).get("properties", {})
            return any("enum" in schema for schema in properties.values())
    return False


def _tokens(step: EvidenceStep) -> int:
    """Completion tokens as the provider counted them; where it did not, a low estimate of one a word."""
    if step.completion_tokens is not None:
        return step.completion_tokens
    return len(words_of(step.spoken))


def _cite(gate: str, step: EvidenceStep, span: Span, note: str) -> Citation:
    return Citation(gate, step.position, span.start, span.end, step.spoken[span.start : span.end], note)
