"""Whether the constraints of a query are still checked where the answer is decided.

The answer is decided in the last step before it that says something of the results; what comes after only
carries it out. What must be spoken of there are figures, services and the query's own values, which look
alike in every language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judge import lexicon
from judge.constraints import Budget, Constraints, PriceRange, constraints, services_named, services_spoken_of
from judge.figures import TOLERANCE, figures
from judge.seen import DAY, Seen, cents, words_of
from judge.statements import Statement

_COMMON = frozenset(
    words_of(
        "looking find show please with that this from have want need would like some offering offer "
        "shop shops sells item items product products only also both these them other should which what "
        "much many more most were was did does into than between during"
    )
)
_ADMITS = re.compile(
    r"\b(?:exceeds?|above|over|outside|below|under|beyond|no|none|not?|without|lacks|however|unfortunately)\b|超|不|没",
    re.IGNORECASE,
)


def decided_in(steps: Sequence[Sequence[Statement]]) -> int | None:
    """The index of the last step that says more of the results than a bare id, if there is one."""
    for at in range(len(steps) - 1, -1, -1):
        for said in steps[at]:
            if (
                any(mark.kind in ("number", "value", "measure", "phrase", "day") for mark in said.marks)
                or said.sums
            ):
                return at
    return None


def untracked(query: str, argued: Mapping[str, Any], said: Sequence[Statement], whole: Seen) -> Iterator[str]:
    """What the closing reasoning leaves open, in words. `argued` are the arguments of the answer."""
    text = "\n".join(s.text for s in said)
    wanted = constraints(query)
    given = ", ".join(str(value) for value in argued.values())
    chosen = [w for w in dict.fromkeys(words_of(given)) if w in whole.records]
    spoken = {cents(r) for s in said for f in s.figures for r in f.readings}
    yield from _chosen_spoken_of(chosen, given, said, spoken, whole)
    yield from _bounds(wanted.prices, chosen, said, spoken, text, whole)
    yield from _services(wanted, chosen, text, whole)
    if wanted.budget is not None:
        yield from _money(wanted.budget, chosen, spoken, text, whole)
    yield from _values(query, text, whole)
    if wanted.period and not (DAY.search(text) or lexicon.months(text) or lexicon.A_QUARTER.search(text)):
        yield "the period that was asked for is not spoken of at the end"
    if wanted.others and not any(cents(figure) in spoken for figure in wanted.others):
        yield "no size or count that was asked for is spoken of at the end"
    if not wanted.prices and not wanted.services and wanted.budget is None and not wanted.period:
        asked = {w for w in words_of(query) if len(w) > 3} - _COMMON
        if 2 * len(asked & set(words_of(text))) < len(asked) and not wanted.others:
            yield "less than half of what the query asks for is spoken of at the end"


def _chosen_spoken_of(
    chosen: Sequence[str], given: str, said: Sequence[Statement], spoken: set[int], whole: Seen
) -> Iterator[str]:
    named = frozenset().union(
        *(m.owners for s in said for m in s.marks if len(m.owners) == 1), *(s.named for s in said)
    )
    if chosen:
        last = next((s.named for s in reversed(said) if s.named), frozenset())
        if not any(record in named for record in chosen):
            yield "the reasoning that decides the answer does not speak of what was chosen"
        elif not any(record in last for record in chosen):
            yield "the reasoning that decides the answer ends with another one than was chosen"
        return
    for figure in figures(given):
        if not any(cents(reading) in spoken for reading in figure.readings):
            yield f"the answer's {figure.text} is not worked out where it is decided"
            return


def _bounds(
    prices: Sequence[PriceRange],
    chosen: Sequence[str],
    said: Sequence[Statement],
    spoken: set[int],
    text: str,
    whole: Seen,
) -> Iterator[str]:
    mains = [main for record in chosen if (main := whole.records[record].main) is not None]
    for price_range in prices:
        if not all(cents(bound) in spoken for bound in price_range.bounds):
            yield f"the range {price_range.low} to {price_range.high} is not spoken of at the end"
        elif mains and not any(price_range.holds(main) for main in mains) and not _ADMITS.search(text):
            yield "nothing that was chosen lies in the range, and the reasoning does not say so"
    if prices and mains and not any(_said(main, spoken) for main in mains):
        yield "the price of what was chosen is not looked at"


def _services(wanted: Constraints, chosen: Sequence[str], text: str, whole: Seen) -> Iterator[str]:
    if missing := set(wanted.services) - set(services_spoken_of(text)):
        yield f"the wish for {', '.join(sorted(missing))} is not spoken of at the end"
    for record in chosen:
        offered = [v for values in whole.records[record].values.values() for v in values]
        named = {name for value in offered for name in services_named(" ".join(value))}
        wrongly = set(wanted.services) - named
        if wrongly and len(chosen) == 1 and not _ADMITS.search(text):
            yield f"what was chosen lacks {', '.join(sorted(wrongly))}, and the reasoning does not say so"


def _money(budget: Budget, chosen: Sequence[str], spoken: set[int], text: str, whole: Seen) -> Iterator[str]:
    mains = [main for record in chosen if (main := whole.records[record].main) is not None]
    if cents(budget.amount) not in spoken:
        yield "the budget is not spoken of at the end"
    if len(mains) < len(chosen) or not mains:
        yield "something was chosen whose price no result showed"
        return
    shops = [whole.records[record].values.get("shop_id", set()) for record in chosen]
    total = sum(mains)
    to_pay = budget.to_pay(total, one_shop=bool(set.intersection(*map(set, shops))))
    if not _said(total, spoken) or not _said(to_pay, spoken):
        yield f"the sum is not worked out: {total:g} in all, {to_pay:g} to pay"
    elif to_pay > budget.amount + TOLERANCE and not _ADMITS.search(text):
        yield "what is to pay exceeds the budget, and the reasoning does not say so"


def _values(query: str, text: str, whole: Seen) -> Iterator[str]:
    """The query's words that are one value of a field and tell records apart must be said again."""
    asked, said = set(words_of(query)), set(words_of(text))
    fields: dict[str, set[str]] = {}
    for record in whole.records.values():
        for name in record.scalars:
            fields.setdefault(name, set()).update(v[0] for v in record.values[name] if len(v) == 1)
    for name in sorted(fields):
        named = fields[name] & asked
        if len(fields[name]) > 1 and named and not named & said:
            yield f"the {name} that was asked for is not spoken of at the end"


def _said(amount: float, spoken: set[int]) -> bool:
    """Whether an amount is written, exactly or rounded to whole units."""
    return cents(amount) in spoken or cents(float(round(amount))) in spoken
