"""Whether a text sets two candidates against one another, with a reason from the results that holds.

Four forms are known. A *contrast*: a sentence that names two candidates, has a word that contrasts or a
conclusion that takes one, and cites a datum that one has and the other has not. A *difference*: the exact
difference of two candidates' figures, in whatever language. An *order*: one of two candidates is said to be
cheaper, dearer, earlier or later, or an inequality stands between their figures, and it is so. An
*elimination*: near one another, a candidate is put aside with a datum of its own, and another is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from judge import lexicon
from judge.figures import TOLERANCE, Figure
from judge.ordering import ORDERS, main_of, nearest_name, order_claims, ordered
from judge.seen import Seen, cents
from judge.spans import Span
from judge.statements import NAMING, Mark, Statement

PASSAGE = 3
"""Sentences within which two candidates must be named."""
_DATA = ("number", "measure", "value", "day")
LIST = 6
"""Lines within which one candidate is put aside and another taken."""
MAX_CANDIDATES = 12
"""Of one passage's candidates, so many are looked at."""


def comparison(statements: Sequence[Statement], whole: Seen) -> tuple[Span, str] | None:
    """The first comparison of a step that holds: where it stands, and what against what."""
    for at, said in enumerate(statements):
        if any(claim.kind != "arithmetic" for claim in said.claims):
            continue
        passage = statements[max(0, at - PASSAGE + 1) : at + 1]
        note = _order(said, passage, whole) or _contrast(said, whole) or _difference(said, passage, whole)
        note = note or _elimination(said, statements[max(0, at - LIST + 1) : at])
        if note is not None:
            start = said.span.start if len(said.candidates) > 1 else passage[0].span.start
            return Span(start, said.span.end), note
    return None


def _contrast(said: Statement, whole: Seen) -> str | None:
    if len(said.candidates) < 2:
        return None
    places = [_first_place(said, candidate) for candidate in said.candidates]
    second = sorted(places)[1]
    contrasts = list(lexicon.CONTRAST.finditer(said.text))
    if not contrasts:
        concluded = next(
            (m for m in lexicon.CONCLUSION.finditer(said.text) if said.span.start + m.start() > second), None
        )
        if concluded is None or not _named_after(said, said.span.start + concluded.end()):
            return None
    for one, other in combinations(said.candidates[:MAX_CANDIDATES], 2):
        reason = next(_reasons(said, one, other), None)
        if reason is not None:
            return f"{min(one)} against {min(other)} by {reason.kind} {reason.value}"
        margin = _margin(said, (one, other), whole)
        if margin is not None:
            return f"{min(one)} against {min(other)} by {margin}"
    return None


def _margin(said: Statement, pair: Sequence[frozenset[str]], whole: Seen) -> str | None:
    """How far a candidate's figure is from another figure of the sentence (a limit), where that is stated."""
    mains = [main for candidate in pair if (main := main_of(candidate, whole)) is not None]
    values = [f.value for f in said.figures[:40]]
    for figure in said.figures[:40]:
        apart = {cents(abs(main - value)) for main in mains for value in values}
        if figure.value >= 2 and cents(figure.value) in apart and cents(figure.value) not in whole.numbers:
            return f"a margin of {figure.text}"
    return None


def _elimination(said: Statement, before: Sequence[Statement]) -> str | None:
    """ "A: 899. B: 349, too dim. So A": `said` takes one, and `before` puts another aside for a reason."""
    if len(said.named) != 1 or len(said.candidates) != 1 or not lexicon.CHOICE.search(said.text):
        return None
    own = said.candidates[0]
    described = any(
        own <= m.owners for s in (said, *before) if own & s.named for m in s.marks if m.kind in _DATA
    )
    for one in reversed(before):
        other = one.candidates[0] if len(one.candidates) == 1 else frozenset()
        reason = next((m for m in one.marks if m.kind in _DATA and other and other <= m.owners), None)
        rejected = lexicon.REJECTION.search(one.text)
        if (
            described
            and reason
            and rejected
            and not other & own
            and not any(c.kind == "datum" for c in one.claims)
        ):
            return f"{min(other)} is put aside by {reason.value}, {min(own)} taken"
    return None


def _first_place(said: Statement, candidate: frozenset[str]) -> int:
    return min((m.span.start for m in said.marks if m.owners >= candidate), default=said.span.end)


def _named_after(said: Statement, place: int) -> bool:
    return any(m.kind in NAMING and m.span.start >= place for m in said.marks)


def _reasons(said: Statement, one: frozenset[str], other: frozenset[str]) -> Iterator[Mark]:
    """Data that one of two candidates has and the other has not, the words that name them left out."""
    names = {_name_of(said, one), _name_of(said, other)}
    added = {f.span for s in said.sums if "+" in s.operators for f in s.operands}
    for mark in said.marks:
        if mark.kind in ("id", "name") or mark.value in names or mark.span in added:
            continue
        if bool(mark.owners >= one) != bool(mark.owners >= other):
            yield mark


def _name_of(said: Statement, candidate: frozenset[str]) -> str:
    naming = [m for m in said.marks if m.owners >= candidate]
    naming.sort(key=lambda m: (m.kind != "id", m.kind not in NAMING, m.span.start))
    return naming[0].value if naming and naming[0].kind in NAMING else ""


def _difference(said: Statement, passage: Sequence[Statement], whole: Seen) -> str | None:
    results = {one.stated.span for one in said.sums}
    subtracted = [s for s in said.sums if s.right and s.operators == ("-",)]
    for done in subtracted:
        owners = [_owners(operand, passage, whole) for operand in done.operands]
        if all(owners) and not owners[0] & owners[1]:
            return f"{done.operands[0].text} less {done.operands[1].text}"
    candidates = _spoken_of(passage, whole)
    mains = [(c, main) for c in candidates if (main := main_of(c, whole)) is not None]
    mains += [(c, value) for c, value in _worked_out(passage, whole)]
    for figure in said.figures:
        known = any(cents(r) in whole.numbers for r in figure.readings)
        if known or figure.value < 2 or figure.span in results:
            continue
        for (first, a), (other, b) in combinations(mains[: 2 * MAX_CANDIDATES], 2):
            if not first & other and any(abs(abs(a - b) - r) <= TOLERANCE for r in figure.readings):
                return f"{min(first)} and {min(other)} are {figure.text} apart"
    return None


def _spoken_of(passage: Sequence[Statement], whole: Seen) -> list[frozenset[str]]:
    found = [c for said in passage for c in said.candidates if all(i in whole.records for i in c)]
    found += [m.owners for said in passage for m in said.marks if m.kind == "number" and len(m.owners) == 1]
    return list(dict.fromkeys(found))[-MAX_CANDIDATES:]


def _worked_out(passage: Sequence[Statement], whole: Seen) -> Iterator[tuple[frozenset[str], float]]:
    """Sums of records' figures, with the records."""
    for said in passage:
        for one in said.sums:
            owners = [_owners(operand, passage, whole) for operand in one.operands]
            if one.right and set(one.operators) == {"+"} and all(owners):
                yield frozenset().union(*owners), one.stated.value


def _owners(figure: Figure, passage: Sequence[Statement], whole: Seen) -> frozenset[str]:
    """The records that a figure is of; those spoken of in the passage first."""
    having = frozenset().union(*(whole.numbers.get(cents(r), set()) for r in figure.readings))
    near = having & frozenset().union(*(s.named for s in passage))
    return near or having


def _order(said: Statement, passage: Sequence[Statement], whole: Seen) -> str | None:
    for claim, right in order_claims(said, whole):
        if right:
            return f"{claim.record} is {claim.said}"
    worked = {cents(value): owners for owners, value in _worked_out(passage, whole)}
    for order in said.orders:
        low, high = (
            worked.get(cents(f.value)) or _owners(f, passage, whole) for f in (order.low, order.high)
        )
        if order.right and low and high and not low & high:
            return f"{order.low.text} is under {order.high.text}"
    return _alone(said, passage, whole)


def _alone(said: Statement, passage: Sequence[Statement], whole: Seen) -> str | None:
    """ "A costs 1, B costs 2. A is cheaper": a word of order beside one name, and the others just before."""
    spoken = [c for s in passage for c in s.candidates]
    for pattern, by_day, sign in ORDERS:
        match = pattern.search(said.text)
        if match is None:
            continue
        own = nearest_name(said, said.span.start + match.start(), said.span.start + match.end())
        others = [c for c in dict.fromkeys(spoken) if own is not None and not c & own][:MAX_CANDIDATES]
        if (
            own is None
            or not others
            or lexicon.NEGATION.search(said.text[max(0, match.start() - 12) : match.start()])
        ):
            continue
        pairs = [ordered(own, other, whole, by_day) for other in others]
        if pairs and all(place == sign for place in pairs):
            return f"{min(own)} is set against {min(others[0])}"
    return None
