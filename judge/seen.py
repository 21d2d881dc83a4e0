"""What tool results had shown, up to a point of an episode: what claims are looked up in.

Results are read by their structure, so that any environment's are understood. A *record* is an object with an
id: a key that is `id` or ends in `_id`. Where it has several, its own id is the one whose values differ most
among the records of the same result; ties go to the first name in the alphabet. What else the object holds,
at any depth, are the record's data: numbers, days, short values, and texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f"
"""Scripts that put no spaces between words: each character stands for itself."""
WORD = re.compile(rf"[^\W{_SCRIPTS}]+(?:[.\-'’][^\W{_SCRIPTS}]+)*|[{_SCRIPTS}]")
"""A word, compounds and decimals included."""
DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
MEASURE = re.compile(r"(?<![\w.,])(\d{1,6}(?:\.\d{1,3})?)[ -]?([A-Za-z]{1,8})\b")
"""A number with its unit, as in 500g, 15.6 inch, 84 Keys."""

_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

VALUE_WORDS = 3
"""A string of so many words is a value that is looked for as a whole; a longer one is a text."""
TEXT_WORDS = 400
"""Of a text, so many words are read."""
_MAIN_FIELD = re.compile(r"price|amount|cost|total|fare|fee", re.IGNORECASE)


@dataclass(slots=True)
class SeenRecord:
    """What results had shown of one record. Numbers are without their sign; words are in lower case."""

    record_id: str
    numbers: dict[str, set[float]] = field(default_factory=dict)
    values: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    scalars: set[str] = field(default_factory=set)
    """The fields that hold one value, not a list or a nest of them."""
    measures: dict[str, set[float]] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)
    vocabulary: set[str] = field(default_factory=set)
    """Every word that stands in it."""

    @property
    def main(self) -> float | None:
        """The number that such records are compared by: a price, an amount, else the only one there is."""
        names = [name for name in self.numbers if _MAIN_FIELD.search(name)] or (
            list(self.numbers) if len(self.numbers) == 1 else []
        )
        return min(self.numbers[names[0]]) if names else None

    def has_value(self, words: tuple[str, ...]) -> bool:
        """Whether a short value is `words`."""
        return any(words in values for values in self.values.values())


@dataclass(slots=True)
class Seen:
    """Everything results had shown up to a point of an episode. Grows by `add`.

    The indices lead from a datum to the ids of the records that have it.
    """

    records: dict[str, SeenRecord] = field(default_factory=dict)
    numbers: dict[int, set[str]] = field(default_factory=dict)
    """By hundredths, signs left out."""
    values: dict[tuple[str, ...], set[str]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Two words in a row of a text."""
    words: dict[str, set[str]] = field(default_factory=dict)
    """Words of texts and values that are written like a name or a model: a capital, or a digit in it."""
    measures: dict[tuple[float, str], set[str]] = field(default_factory=dict)
    days: dict[str, set[str]] = field(default_factory=dict)
    digits: set[str] = field(default_factory=set)
    results: int = 0
    """How many results there were that are no errors, empty ones included."""

    def add(self, result: Any) -> None:
        """Take in one tool result (a JSON value)."""
        self.results += 1
        for record_id, record in records_of(result):
            seen = self.records.setdefault(record_id, SeenRecord(record_id))
            for name, leaf, alone in _leaves(record):
                self._add_leaf(seen, name, leaf, alone)
        for _, leaf, _ in _leaves(result):
            self.digits.update(re.findall(r"\d+", str(leaf)))

    def _add_leaf(self, seen: SeenRecord, name: str, leaf: str | float, alone: bool) -> None:
        key = seen.record_id
        if not isinstance(leaf, str):
            self._number(seen, name, abs(float(leaf)))
            return
        if leaf.lower() == key:
            return
        found = list(WORD.finditer(leaf))[:TEXT_WORDS]
        if not found:
            return
        words = tuple(m.group().lower() for m in found)
        if DAY.fullmatch(leaf[:10]):
            seen.days.add(leaf[:10])
            self.days.setdefault(leaf[:10], set()).add(key)
            return
        seen.vocabulary.update(words)
        if len(words) <= VALUE_WORDS:
            parts = tuple(part.lower() for part in _CAMEL.findall(leaf)) if len(words) == 1 else ()
            for spelled in {words, parts} if 1 < len(parts) <= VALUE_WORDS else {words}:
                seen.values.setdefault(name, set()).add(spelled)
                self.values.setdefault(spelled, set()).add(key)
            if alone:
                seen.scalars.add(name)
        if len(words) == 1 and words[0].isdigit() and len(words[0]) <= 12:
            self._number(seen, name, float(words[0]))
        for first, second in pairwise(words):
            self.pairs.setdefault((first, second), set()).add(key)
        for match in found:
            word = match.group()
            if word[0].isupper() or (any(c.isdigit() for c in word) and any(c.isalpha() for c in word)):
                self.words.setdefault(word.lower(), set()).add(key)
        for match in MEASURE.finditer(leaf[:4000]):
            measure = (float(match.group(1)), unit(match.group(2)))
            seen.measures.setdefault(measure[1], set()).add(measure[0])
            self.measures.setdefault(measure, set()).add(key)

    def _number(self, seen: SeenRecord, name: str, value: float) -> None:
        seen.numbers.setdefault(name, set()).add(value)
        self.numbers.setdefault(cents(value), set()).add(seen.record_id)


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return [m.group().lower() for m in WORD.finditer(text)]


def cents(value: float) -> int:
    """A number as it is compared: without its sign, in hundredths; beyond all bounds, as one bound."""
    return round(min(abs(value), 1e15) * 100)


def unit(word: str) -> str:
    """A unit as it is compared: lower-cased, without a plural s."""
    lowered = word.lower()
    return lowered[:-1] if len(lowered) > 3 and lowered.endswith("s") else lowered


def records_of(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The records of a result, outermost first, each with its id in lower case."""
    if isinstance(value, Mapping):
        yield from _identified([value])
        for inner in value.values():
            yield from records_of(inner)
    elif isinstance(value, list):
        objects = [item for item in value if isinstance(item, Mapping)]
        yield from _identified(objects)
        for item in value:
            for inner in item.values() if isinstance(item, Mapping) else (item,):
                yield from records_of(inner)


def _identified(objects: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    ids: dict[str, set[str]] = {}
    for item in objects:
        for name, value in item.items():
            if _names_an_id(name) and isinstance(value, (str, int)) and not isinstance(value, bool):
                ids.setdefault(name, set()).add(str(value))
    ranked = sorted(ids, key=lambda name: (-len(ids[name]), name))
    for item in objects:
        own = next((name for name in ranked if isinstance(item.get(name), (str, int))), None)
        if own is not None:
            yield str(item[own]).strip().lower(), item


def _names_an_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")


def _leaves(value: Any, name: str = "", alone: bool = True) -> Iterator[tuple[str, str | float, bool]]:
    """Strings and numbers at any depth, each with the nearest key that is a name, and whether alone."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            nested = bool(name)
            yield from _leaves(inner, name if str(key).isdigit() else str(key), alone and not nested)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name, False)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield name, value, alone
