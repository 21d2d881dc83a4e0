"""The deterministic judge: the rubric's gates, checked by code against the evidence.

It believes nothing that it cannot look up: a statement counts only if a tool result that came *before* the
reasoning bears it out, so instructions, flattery or pasted material in an agent's text have nothing to act
on. It is free and gives equal grades for equal evidence. It knows the shopping environment's results (records
with a `product_id`) and its answering tool, `recommend_product`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from judge.claims import MONEY_TOLERANCE, Mark, Span, Statement, amounts, statements
from judge.constraints import Constraints, constraints, services_named
from judge.evidence import Evidence, EvidenceCall, EvidenceStep
from judge.judgement import Citation, Judgement
from judge.rubric import MIN_WORKING_TOKENS, RUBRIC, Rubric
from judge.seen import Seen, words_of

NAME = "grounded-1"
"""Changes with any change of what this judge accepts."""

ANSWER_TOOL = "recommend_product"
COMPARISON_SENTENCES = 3
"""Two candidates are compared when both are named, with a reason, within so many sentences."""
CITED_DATA = 2
"""Distinct data that must be cited."""

_OF_RESULTS = re.compile(
    r"\b(?:results?|candidates?|listings?|hits?|options?|items?|products?|search|page|shops?|it|they|this|these|none|"
    r"first|second|third|top)\b",
    re.IGNORECASE,
)
_ASSESSMENT = re.compile(
    r"\b(?:match(?:es|ed|ing)?|fits?|satisf\w+|meets?|lacks?|miss(?:es|ing)|suits?|suitable|exceeds?|within|outside|"
    r"too|cheap\w*|expensive|because|since|none|only|relevant|irrelevant|wrong|correct|does\s+not|doesn't|isn't|"
    r"is\s+not|has\s+no|shows?|offers?|includes?|supports?|best|better|worse|closest)\b",
    re.IGNORECASE,
)
_COMPARISON = re.compile(
    r"\b(?:than|while|whereas|compared?|comparing|comparison|versus|vs|unlike|instead|rather|both|prefer\w*|cheaper|"
    r"cheapest|dearer|better|best|lower|lowest|higher|highest|however|but|over|only\s+one)\b",
    re.IGNORECASE,
)
_CHEAPER = re.compile(r"\b(?:cheaper|less\s+expensive|costs\s+less|lower\s+price\w*)\b", re.IGNORECASE)
_DEARER = re.compile(r"\b(?:dearer|more\s+expensive|costs\s+more|higher\s+price\w*|pricier)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|never|no)\b|n't\b", re.IGNORECASE)
_ADMITS = re.compile(
    r"\b(?:exceeds?|above|over|outside|below|under|no\s+(?:candidate|product|item)|none|not?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Heard:
    """A model step and what it says, read against what results had shown by then.

    `seen` is what the whole episode showed: enough to refute a claim, never to support one.
    """

    step: EvidenceStep
    statements: tuple[Statement, ...]
    results_before: int
    seen: Seen


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
    heard = _listen(evidence)
    citations: list[Citation] = []
    passed, why = 0, ""
    for gate in rubric.gates:
        ruling = _GATES[gate.name](evidence, heard)
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


def _listen(evidence: Evidence) -> tuple[_Heard, ...]:
    """Read every model step against the results of the calls before it."""
    waiting = evidence.calls()
    seen = Seen()
    heard: list[_Heard] = []
    for step in sorted(evidence.steps, key=lambda step: step.position):
        if not step.by_model:
            continue
        while waiting and waiting[0].position < step.position:
            call = waiting.pop(0)
            if call.error is None:
                seen.add(call.result)
        said = tuple(statements(step.spoken, seen, evidence.query))
        heard.append(_Heard(step, said, seen.results, seen))
    return tuple(heard)


def _worked(evidence: Evidence, heard: Sequence[_Heard]) -> _Ruling:
    longest = max(heard, key=lambda h: _tokens(h.step), default=None)
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


def _analysed(evidence: Evidence, heard: Sequence[_Heard]) -> _Ruling:
    for h in heard:
        if not h.results_before:
            continue
        for said in h.statements:
            if said.marks:
                note = f"speaks of {said.products[0]}"
            elif (
                _OF_RESULTS.search(said.text)
                and _ASSESSMENT.search(said.text)
                and len(words_of(said.text)) > 4
            ):
                note = "assesses the results"
            else:
                continue
            return _Ruling(True, note, (_cite("analysed", h.step, said.span, note),))
    return _Ruling(False, "nothing that was written after a result says anything of a result")


def _cited(evidence: Evidence, heard: Sequence[_Heard]) -> _Ruling:
    marks: dict[tuple[str, str, str], tuple[EvidenceStep, Mark]] = {}
    for h in heard:
        for said in h.statements:
            for mark in said.marks:
                marks.setdefault((mark.kind, mark.product, mark.value), (h.step, mark))
    wrong = list(_contradictions(heard))
    substance = [kind for kind, _, _ in marks if kind != "id"]
    citations = tuple(
        _cite("cited", step, mark.span, f"{mark.kind} of {mark.product} stands in the results")
        for step, mark in list(marks.values())[:6]
    ) + tuple(_cite("cited", step, span, note) for step, span, note in wrong[:3])
    tally = f"{len(marks)} data cited, {len(substance)} more than an id, {len(wrong)} against the results"
    passed = bool(substance) and len(marks) - 2 * len(wrong) >= CITED_DATA
    return _Ruling(passed, tally, citations)


def _compared(evidence: Evidence, heard: Sequence[_Heard]) -> _Ruling:
    for h in heard:
        for at in range(len(h.statements)):
            passage = h.statements[at : at + COMPARISON_SENTENCES]
            marked = [said for said in passage if _COMPARISON.search(said.text) and said.marks]
            marks = [mark for said in passage for mark in said.marks]
            named = dict.fromkeys(mark.product for mark in marks)
            reasons = [mark for said in marked for mark in said.marks if mark.kind != "id"]
            if len(named) < 2 or not reasons or any(_false_order(said, h.seen) for said in passage):
                continue
            first, second = list(named)[:2]
            span = Span(passage[0].span.start, marked[-1].span.end)
            note = f"{first} against {second} by {reasons[0].kind}"
            return _Ruling(True, note, (_cite("compared", h.step, span, note),))
    return _Ruling(False, "no passage sets two candidates against one another with a reason that holds")


def _tracked(evidence: Evidence, heard: Sequence[_Heard]) -> _Ruling:
    answer = _answer(evidence)
    if answer is None:
        return _Ruling(False, "no answer was given, so nothing was tracked to the end")
    closing = [h for h in heard if h.results_before and h.step.position <= answer.position][-2:]
    chosen = _chosen(answer)
    said = [statement for h in closing for statement in h.statements]
    if not closing or not any(product in statement.products for statement in said for product in chosen):
        return _Ruling(False, "the reasoning that decides the answer does not speak of what was chosen")
    wrong = list(_contradictions(heard))
    if wrong:
        step, span, note = wrong[0]
        return _Ruling(False, note, (_cite("tracked", step, span, note),))
    text = "\n".join(h.step.spoken for h in closing)
    wanted = constraints(evidence.query)
    missing = list(_untracked(wanted, text, said, chosen, closing[-1].seen, evidence.query))
    last = closing[-1].step
    span = Span(0, min(len(last.spoken), 160))
    if missing:
        return _Ruling(False, missing[0], (_cite("tracked", last, span, missing[0]),))
    note = "every constraint is checked where the answer is decided"
    return _Ruling(True, note, (_cite("tracked", last, span, note),))


def _untracked(
    wanted: Constraints,
    text: str,
    said: Sequence[Statement],
    chosen: Sequence[str],
    seen: Seen,
    query: str,
) -> Iterator[str]:
    """What the closing reasoning leaves open, in words."""
    figures = [value for value, _ in amounts(text)]
    prices = [seen.products[c].price for c in chosen if c in seen.products]
    known = [price for price in prices if price is not None]
    for price_range in wanted.prices:
        if not all(_among(bound, figures) for bound in price_range.bounds):
            yield f"the price range {price_range.low} to {price_range.high} is not spoken of at the end"
        elif known and not any(price_range.holds(price) for price in known) and not _ADMITS.search(text):
            yield "no chosen price lies in the price range, and the reasoning does not say so"
    if wanted.prices and not any(
        mark.kind == "price" and mark.product in chosen for s in said for mark in s.marks
    ):
        yield "the price of what was chosen is not looked at"
    if missing := set(wanted.services) - set(services_named(text)):
        yield f"the wish for {', '.join(sorted(missing))} is not spoken of at the end"
    if wanted.budget is not None:
        total = sum(known)
        one_shop = len({seen.products[c].shop_id for c in chosen if c in seen.products}) == 1
        to_pay = wanted.budget.to_pay(total, one_shop=one_shop)
        if not _among(wanted.budget.amount, figures):
            yield "the budget is not spoken of at the end"
        elif len(known) < len(chosen) or not known:
            yield "a product was chosen whose price no result showed"
        elif not _among(total, figures) or not _among(to_pay, figures):
            yield f"the sum is not worked out: {total:g} in all, {to_pay:g} to pay"
        elif to_pay > wanted.budget.amount + MONEY_TOLERANCE and not _ADMITS.search(text):
            yield "what is to pay exceeds the budget, and the reasoning does not say so"
    if not wanted.prices and not wanted.services and wanted.budget is None:
        asked = {w for w in words_of(query) if len(w) > 3} - _COMMON
        spoken = set(words_of(text))
        if 2 * len(asked & spoken) < len(asked):
            yield "less than half of what the query asks for is spoken of at the end"


_COMMON = frozenset(
    {
        "looking",
        "find",
        "show",
        "please",
        "with",
        "that",
        "this",
        "from",
        "have",
        "want",
        "need",
        "would",
        "like",
    }
    | {"some", "offering", "offer", "shop", "shops", "sells", "item", "items", "product", "products", "only"}
    | {"also", "both", "these", "them", "other", "should"}
)

_GATES: dict[str, Callable[[Evidence, Sequence[_Heard]], _Ruling]] = {
    "worked": _worked,
    "analysed": _analysed,
    "cited": _cited,
    "compared": _compared,
    "tracked": _tracked,
}


def _contradictions(heard: Sequence[_Heard]) -> Iterator[tuple[EvidenceStep, Span, str]]:
    for h in heard:
        for said in h.statements:
            for claim in said.contradictions:
                yield (
                    h.step,
                    claim.span,
                    f"says {claim.said} of {claim.product}, the results say {claim.found}",
                )
            if _false_order(said, h.seen):
                yield h.step, said.span, "says which of two prices is lower, and the results say the opposite"


def _false_order(said: Statement, seen: Seen) -> bool:
    """Whether a sentence that names exactly two products has their prices the wrong way round."""
    cheaper, dearer = _CHEAPER.search(said.text), _DEARER.search(said.text)
    products = said.products
    if (cheaper is None) == (dearer is None) or len(products) != 2 or " not " in said.text.lower():
        return False
    word = cheaper or dearer
    assert word is not None
    at = said.span.start + word.start()
    named = {m.product: m.span.start for m in reversed(said.marks) if m.kind in ("id", "title")}
    if len(named) != 2 or " than " not in said.text.lower():
        return False
    first, second = sorted(named, key=lambda product: named[product])
    if not named[first] < at < named[second]:
        return False
    low, high = seen.products[first].price, seen.products[second].price
    if low is None or high is None:
        return False
    return low >= high if cheaper else low <= high


def _answer(evidence: Evidence) -> EvidenceCall | None:
    answers = [call for call in evidence.calls() if call.name == ANSWER_TOOL and call.error is None]
    return answers[-1] if answers else None


def _chosen(answer: EvidenceCall) -> tuple[str, ...]:
    ids = (answer.arguments or {}).get("product_ids", "")
    parts = ids.split(",") if isinstance(ids, str) else [str(part) for part in ids]
    return tuple(dict.fromkeys(part.strip().lower() for part in parts if part.strip()))


def _among(amount: float, figures: Sequence[float]) -> bool:
    """Whether `amount` is written among `figures`, exactly or rounded to whole pesos."""
    return any(abs(amount - figure) <= MONEY_TOLERANCE or round(amount) == figure for figure in figures)


def _tokens(step: EvidenceStep) -> int:
    """Completion tokens as the provider counted them; where it did not, a low estimate of one a word."""
    if step.completion_tokens is not None:
        return step.completion_tokens
    return len(words_of(step.spoken))


def _cite(gate: str, step: EvidenceStep, span: Span, note: str) -> Citation:
    return Citation(gate, step.position, span.start, span.end, step.spoken[span.start : span.end], note)
