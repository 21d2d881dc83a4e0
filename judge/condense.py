"""A long episode made short enough to read, by what its reasoning refers to and never by length of text.

The rule, for evidence above `WHOLE_BYTES`. In every list of a tool's result that has at least `MIN_ITEMS`
records, a record stays whole when the reasoning or a call refers to it, and so do its neighbours and the
first one. Of any other record every value of up to `SHORT_WORDS` words stays (ids, prices, services,
attributes), so that "none supports it" or "the cheapest" can still be checked against all; longer texts that
nobody spoke of are left out, and a field says which. Reasoning, query, arguments and errors stay as they are.

A record is referred to when the reasoning holds two words in a row of one of its texts (not two short ones,
as "of the"), a number of at least `ID_DIGITS` digits from it, or a word or figure that at most `RARE` records
of that list have; or when a call's arguments name such a number. What a gate can be passed or failed by is
among these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from judge.claims import amounts
from judge.evidence import Evidence, EvidenceCall, EvidenceStep
from judge.seen import words_of

WHOLE_BYTES = 24 * 1024
MIN_ITEMS = 3
SHORT_WORDS = 3
ID_DIGITS = 5
RARE = 2
TELLING_LETTERS = 4
"""A shorter word says little alone."""
LEFT_OUT = "left_out"
"""The field of a shortened record that names what it lacks."""

_DIGITS = re.compile(rf"\d{{{ID_DIGITS},}}")


def condensed(evidence: Evidence, *, whole_bytes: int = WHOLE_BYTES) -> Evidence:
    """The evidence as a judge is shown it. Pure; evidence of up to `whole_bytes` is returned as it is."""
    if len(evidence.to_bytes()) <= whole_bytes:
        return evidence
    spoken = _spoken(evidence)
    return replace(evidence, steps=tuple(_step(step, spoken) for step in evidence.steps))


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a record, or the reasoning, speaks of: words, pairs of words in a row, long numbers, figures."""

    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    ids: frozenset[str]
    figures: frozenset[float]


def _terms(texts: Sequence[str], more_ids: Sequence[str] = ()) -> _Terms:
    words: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for text in texts:
        found = words_of(text)
        words.update(word for word in found if len(word) >= TELLING_LETTERS)
        pairs.update(pair for pair in pairwise(found) if max(map(len, pair)) >= TELLING_LETTERS)
    return _Terms(
        words=frozenset(words),
        pairs=frozenset(pairs),
        ids=frozenset(number for text in (*texts, *more_ids) for number in _DIGITS.findall(text)),
        figures=frozenset(value for text in texts for value, _ in amounts(text)),
    )


def _spoken(evidence: Evidence) -> _Terms:
    asked = [str(leaf) for call in evidence.calls() for leaf in _leaves(call.arguments)]
    return _terms([step.spoken for step in evidence.steps if step.by_model], asked)


def _step(step: EvidenceStep, spoken: _Terms) -> EvidenceStep:
    return replace(step, calls=tuple(_call(call, spoken) for call in step.calls))


def _call(call: EvidenceCall, spoken: _Terms) -> EvidenceCall:
    return replace(call, result=_shortened(call.result, spoken))


def _shortened(value: Any, spoken: _Terms) -> Any:
    if isinstance(value, Mapping):
        return {key: _shortened(inner, spoken) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) < MIN_ITEMS or not all(isinstance(item, Mapping) for item in value):
        return [_shortened(inner, spoken) for inner in value]
    return _items(value, spoken)


def _items(items: Sequence[Mapping[str, Any]], spoken: _Terms) -> list[Any]:
    terms = [_terms([str(leaf) for leaf in _leaves(item)]) for item in items]
    words = Counter(word for found in terms for word in found.words)
    figures = Counter(figure for found in terms for figure in found.figures)
    rare_words = {word for word in spoken.words if words[word] <= RARE}
    rare_figures = {figure for figure in spoken.figures if figures[figure] <= RARE}
    named = {0} | {
        at
        for at, found in enumerate(terms)
        if found.pairs & spoken.pairs
        or found.ids & spoken.ids
        or found.words & rare_words
        or found.figures & rare_figures
    }
    whole = {at + beside for at in named for beside in (-1, 0, 1)}
    return [item if at in whole else _short(item) for at, item in enumerate(items)]


def _short(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: pruned for key, value in item.items() if (pruned := _pruned(value)) is not _GONE}
    missing = [key for key in item if key not in kept or kept[key] != item[key]]
    return {**kept, LEFT_OUT: missing} if missing else kept


_GONE = object()


def _pruned(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(words_of(value)) <= SHORT_WORDS else _GONE
    if isinstance(value, list):
        return [kept for inner in value if (kept := _pruned(inner)) is not _GONE]
    if isinstance(value, Mapping):
        return {key: kept for key, inner in value.items() if (kept := _pruned(inner)) is not _GONE}
    return value


def _leaves(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield value
