"""Which of two candidates a sentence says to come first, in price or in time, and whether it does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from judge import lexicon
from judge.seen import Seen
from judge.spans import Span
from judge.statements import NAMING, Claim, Statement

ORDERS = (
    (lexicon.LOWER, False, 1),
    (lexicon.HIGHER, False, -1),
    (lexicon.SOONER, True, 1),
    (lexicon.LATER, True, -1),
)
"""Words of order: whether they are of days (else of prices), and 1 where the lesser comes first."""
_NEAR = 60
_BESIDE = 22
_NOT = re.compile(r"\b(?:not|no|nicht|kein|isn't)\b|n't\b|不", re.IGNORECASE)


def main_of(candidate: frozenset[str], seen: Seen) -> float | None:
    """What a candidate is compared by; for one that fits several records, their sum."""
    mains = [main for i in candidate if (main := seen.records[i].main) is not None]
    return sum(mains) if len(mains) == len(candidate) else None


def wrong_order(said: Statement, whole: Seen) -> Iterator[Claim]:
    """ "A is cheaper than B", against what the results say of A and B."""
    for claim, right in order_claims(said, whole):
        if not right:
            yield claim


def order_claims(said: Statement, whole: Seen) -> Iterator[tuple[Claim, bool]]:
    """What a sentence says of the order of two candidates (in price or in time), and whether it is so."""
    if len(said.candidates) != 2:
        return
    first, second = (_places(said, candidate) for candidate in said.candidates)
    if not first or not second:
        return
    for pattern, by_day, sign in ORDERS:
        for match in pattern.finditer(said.text):
            at = said.span.start + match.start()
            around = _around(said, first, second, at)
            if around is None:
                continue
            left, right, gap = around
            if _NOT.search(gap):
                continue
            place = ordered(left, right, whole, by_day)
            if place is None:
                continue
            holds = place == sign
            yield Claim("order", min(left), "order", match.group(), "the opposite",
                        Span(at, at + len(match.group()))), holds  # fmt: skip
            return


def nearest_name(said: Statement, start: int, end: int) -> frozenset[str] | None:
    """The candidate whose name stands next to a place of a sentence, before or after it."""
    best: tuple[int, frozenset[str]] | None = None
    for mark in said.marks:
        if mark.kind in NAMING:
            away = start - mark.span.end if mark.span.end <= start else mark.span.start - end
            candidate = next((c for c in said.candidates if c <= mark.owners), None)
            if candidate is not None and 0 <= away <= _BESIDE and (best is None or away < best[0]):
                best = (away, candidate)
    return best[1] if best else None


def _places(said: Statement, candidate: frozenset[str]) -> tuple[frozenset[str], list[int]] | None:
    places = [m.span.start for m in said.marks if m.kind in NAMING and m.owners >= candidate]
    return (candidate, places) if places else None


def _around(
    said: Statement,
    first: tuple[frozenset[str], list[int]],
    second: tuple[frozenset[str], list[int]],
    at: int,
) -> tuple[frozenset[str], frozenset[str], str] | None:
    """Which candidate stands before a comparing word and which after it; or both before it, around 比."""
    for a, b in ((first, second), (second, first)):
        for p in a[1]:
            for q in b[1]:
                gap = said.text[p - said.span.start : max(q - said.span.start, 0)]
                if p < q < at and "比" in gap and at - q < _NEAR:
                    return a[0], b[0], gap
    for a, b in ((first, second), (second, first)):
        before = max((p for p in a[1] if p < at), default=None)
        after = min((p for p in b[1] if p > at), default=None)
        if before is None or after is None or after - at > _NEAR:
            continue
        if any(before < p < at for p in b[1]):
            continue
        return a[0], b[0], said.text[before - said.span.start : after - said.span.start]
    return None


def ordered(left: frozenset[str], right: frozenset[str], seen: Seen, by_day: bool) -> int | None:
    """1 when `left` comes first (is the lesser, or the earlier), -1 when `right` does, 0 when neither.

    None where the results do not say. Of candidates that fit several records the sums count, and where the
    greatest of each are the other way round, neither comes first for certain: None.
    """
    if by_day:
        first, second = (min((d for i in c for d in seen.records[i].days), default="") for c in (left, right))
        return (first < second) - (first > second) if first and second else None
    one, other = main_of(left, seen), main_of(right, seen)
    if one is None or other is None:
        return None
    most, least = (max(seen.records[i].main or 0.0 for i in c) for c in (left, right))
    by_sum, by_most = (one < other) - (one > other), (most < least) - (most > least)
    return by_sum if by_sum == by_most else None
