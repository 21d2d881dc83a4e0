"""What a sentence says against the results, and arithmetic that does not come out.

Only what is bound to a record counts: a figure, a measure or a value said right after a record's name, or a
figure said to be a price. What can be worked out from figures near it, or stands in the query, is no claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judge import lexicon
from judge.figures import Figure, agree
from judge.seen import MEASURE, Seen, cents, unit
from judge.spans import Span
from judge.statements import Claim, Statement

SPECIFIC = 20
"""A smaller whole number is too common to be a datum by itself."""
WINDOW = 3
"""A figure may be worked out from the figures of so many sentences."""
RECENT = 40
"""And of at most so many figures."""
_NEAR = 60
_CLOSE = 22
_PRICE_BEFORE = re.compile(
    r"(?:\bpric\w*|\bcost\w*|\bamount\w*|\btook|\bpaid|\bat|\bfor|₱|\bphp|价格|cuesta|kostet|coûte|custa|costa)"
    r"(?:\s+(?:is|of|was|at|only))?[\s:=(]{0,4}(?:₱|php|pesos?)?\s?[-−+]?$",
    re.IGNORECASE,
)
_LEAST = {"at least", "minimum", "over", "above", "more than", "from", "between"}
_MOST = {"at most", "maximum", "under", "below", "less than", "up to", "not more than", "no more than"}
_BOUND_WORDS = "|".join(sorted(_LEAST | _MOST, key=len, reverse=True))
_BOUND = re.compile(rf"\b({_BOUND_WORDS})\s+(?:of\s+)?(\d+(?:\.\d+)?)")
_CURRENCY_AFTER = re.compile(r"\s?(?:php|pesos?|eur|€|₱)\b", re.IGNORECASE)
_ONLY_JOINS = re.compile(r"[\s(:,=|*`\-−–+@~₱$€]{0,8}(?:php\s?|₱)?[-−+]?")


@dataclass(frozen=True, slots=True)
class Asked:
    """What stands in the query: its words, its numbers in hundredths, and its text, all in lower case."""

    words: frozenset[str]
    numbers: frozenset[int]
    text: str

    def bounds(self, value: float, true: set[float]) -> bool:
        """Whether the query has `value` as a bound that one of `true` keeps: to name it claims no more."""
        said = {word for word, number in _BOUND.findall(self.text) if float(number) == value}
        low, high = not said.isdisjoint(_LEAST), not said.isdisjoint(_MOST)
        return (low and max(true) >= value) or (high and min(true) <= value)


@dataclass(frozen=True, slots=True)
class Refuter:
    """Checks one sentence. `names` are the places in it where a record is named, in order, with its id."""

    asked: Asked
    whole: Seen
    names: Sequence[tuple[Span, str]]

    def claims(self, said: Statement, masked: str, before: Sequence[Statement]) -> Iterator[Claim]:
        """The claims against the results. `masked` is the sentence without ids and days."""
        yield from self._wrong_numbers(said, masked, [*before, said])
        yield from self._wrong_measures(said)
        yield from self._wrong_values(said)
        yield from self._wrong_arithmetic(said, [*before, said])

    def _wrong_numbers(self, said: Statement, masked: str, window: Sequence[Statement]) -> Iterator[Claim]:
        offset = said.span.start
        worked_out = {f.span for s in said.sums for f in (*s.operands, s.stated)}
        worked_out |= {f.span for o in said.orders for f in (o.low, o.high)}
        for figure in said.figures:
            readings = {cents(r) for r in figure.readings}
            if (
                figure.percent
                or figure.span in worked_out
                or not specific(figure)
                or glued(figure, masked, offset)
                or readings & self.asked.numbers
            ):
                continue
            start = figure.span.start - offset
            owner = next((n for n in reversed(self.names) if n[0].end <= figure.span.start), None)
            gap = masked[owner[0].end - offset : start] if owner else ""
            priced = _PRICE_BEFORE.search(masked[max(0, start - 30) : start]) is not None
            priced = priced or _CURRENCY_AFTER.match(masked, figure.span.end - offset) is not None
            having = set().union(*(self.whole.numbers.get(r, set()) for r in readings))
            if having:
                close = (
                    owner is not None
                    and len(gap) <= _NEAR
                    and (priced or _ONLY_JOINS.fullmatch(gap) is not None)
                )
                if (
                    owner
                    and close
                    and owner[1] not in having
                    and not any(c & having for c in said.candidates if owner[1] not in c)
                ):
                    yield Claim("datum", owner[1], "number", figure.text, self._main(owner[1]), figure.span)
                continue
            bound = priced or (owner is not None and len(gap) <= _NEAR)
            if bound and figure.text not in self.whole.digits and not self._derived(figure, window):
                record = owner[1] if owner else ""
                found = self._main(record) if record else "no such figure"
                yield Claim("datum", record, "number", figure.text, found, figure.span)

    def _main(self, record: str) -> str:
        main = self.whole.records[record].main if record in self.whole.records else None
        return "another figure" if main is None else f"{main:g}"

    def _derived(self, figure: Figure, window: Sequence[Statement]) -> bool:
        """Whether a figure is a sum, a difference or a share of figures near it."""
        near = [f for s in window for f in s.figures if f.span != figure.span][-RECENT:]
        known = {f.value for f in near}
        known |= {v for v in (self.whole.records[i].main for s in window for i in s.named) if v is not None}
        known |= {n / 100 for n in self.asked.numbers}
        shares = [f.value / 100 for f in near if f.percent]
        values = sorted(known)[: 2 * RECENT]
        for reading in figure.readings:
            if reading > SPECIFIC and any(
                agree(a * s, reading) or agree(a - a * s, reading) for a in values for s in shares
            ):
                return True
            held = {cents(v) for v in values}
            if any(cents(reading - a) in held or cents(reading + a) in held for a in values):
                return True
        return False

    def _wrong_measures(self, said: Statement) -> Iterator[Claim]:
        if not self.names:
            return
        stated = {(float(m.group(1)), unit(m.group(2))) for m in MEASURE.finditer(said.text)}
        for m in MEASURE.finditer(said.text):
            start = said.span.start + m.start()
            owner = next((n for n in reversed(self.names) if n[0].end <= start), None)
            if owner is None or start - owner[0].end > _NEAR:
                continue
            value, name = float(m.group(1)), unit(m.group(2))
            true = self.whole.records[owner[1]].measures.get(name, set())
            others = any((value, name) in self._pairs(c) for c in said.candidates if owner[1] not in c)
            between = said.text[owner[0].end - said.span.start : m.start()]
            if (
                not true
                or value in true
                or self.asked.bounds(value, true)
                or others
                or any((t, name) in stated for t in true)
            ):
                continue
            if not lexicon.NEGATION.search(between):
                span = Span(start, said.span.start + m.end())
                yield Claim("datum", owner[1], name, m.group(), f"{min(true):g} {name}", span)

    def _pairs(self, candidate: frozenset[str]) -> set[tuple[float, str]]:
        return {
            (v, u) for i in candidate for u, values in self.whole.records[i].measures.items() for v in values
        }

    def _wrong_values(self, said: Statement) -> Iterator[Claim]:
        for mark in said.marks:
            if mark.kind != "value" or not self.names:
                continue
            owner = next((n for n in reversed(self.names) if n[0].end <= mark.span.start), None)
            if owner is None or mark.span.start - owner[0].end > _CLOSE or owner[1] in mark.owners:
                continue
            gap = said.text[owner[0].end - said.span.start : mark.span.start - said.span.start]
            record, words = self.whole.records[owner[1]], tuple(mark.value.split(" "))
            if (
                set(words) <= record.vocabulary
                or re.search(r"[,;/|\d()\n]", gap)
                or lexicon.NEGATION.search(gap)
            ):
                continue
            if any(0 <= n[0].start - mark.span.end < _CLOSE // 2 for n in self.names):
                continue
            field = next(
                (
                    f
                    for o in sorted(mark.owners)
                    for f, vs in self.whole.records[o].values.items()
                    if words in vs
                ),
                "",
            )
            if field in record.values:
                true = ", ".join(sorted(" ".join(v) for v in record.values[field]))
                yield Claim("datum", owner[1], field, mark.value, true, mark.span)

    def _wrong_arithmetic(self, said: Statement, window: Sequence[Statement]) -> Iterator[Claim]:
        results = {cents(s.stated.value) for one in window for s in one.sums}
        for one in said.sums:
            terms = "+".join(sorted(f"{f.value:g}" for f in one.operands))
            if not one.right:
                yield Claim("arithmetic", "", terms, one.stated.text, "another result", one.span)
            for operand in one.operands:
                if not specific(operand):
                    continue
                known = any(
                    cents(r) in self.whole.numbers or cents(r) in self.asked.numbers for r in operand.readings
                )
                if known or operand.percent or cents(operand.value) in results:
                    continue
                if operand.text not in self.whole.digits and not self._derived(operand, window[:-1]):
                    yield Claim("arithmetic", "", terms, operand.text, "no such figure", operand.span)
        for order in said.orders:
            if not order.right:
                terms = f"{order.low.text}<{order.high.text}"
                yield Claim("arithmetic", "", terms, terms, "the opposite",
                            Span(min(order.low.span.start, order.high.span.start),
                                 max(order.low.span.end, order.high.span.end)))  # fmt: skip


def specific(figure: Figure) -> bool:
    """Whether a number is more than a count, an ordinal or a year."""
    if "." in figure.text or "," in figure.text:
        return True
    return figure.value >= SPECIFIC


def glued(figure: Figure, masked: str, offset: int) -> bool:
    """Whether letters follow a number at once: it is part of a measure or an ordinal."""
    end = figure.span.end - offset
    return end < len(masked) and masked[end].isascii() and masked[end].isalpha()
