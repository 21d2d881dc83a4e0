"""What one sentence is found to say: data of the results that it holds, and claims against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from judge.figures import Figure, Order, Sum
from judge.spans import Span

MarkKind = Literal["id", "name", "phrase", "value", "number", "measure", "day"]
NAMING: frozenset[MarkKind] = frozenset({"id", "name", "phrase"})
"""Kinds of data that a record is called by."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A datum of the results that stands in the text. `owners` are the ids of the records that have it.

    `asked` says that the query has it as well: by itself it is then no sign that a result was read.
    """

    kind: MarkKind
    value: str
    owners: frozenset[str]
    span: Span
    asked: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """Something said that the results, or arithmetic, contradict.

    `record` and `aspect` say of what; a right statement on the same later on takes the claim back.
    """

    kind: Literal["datum", "order", "arithmetic"]
    record: str
    aspect: str
    said: str
    found: str
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence, with what it is found to say.

    `candidates` are the records that it speaks of, each as the set of ids that the mention fits; two of them
    are disjoint. `settled` are the record and aspect of everything it says rightly of a record by name.
    """

    text: str
    span: Span
    marks: tuple[Mark, ...]
    claims: tuple[Claim, ...]
    candidates: tuple[frozenset[str], ...]
    figures: tuple[Figure, ...]
    sums: tuple[Sum, ...]
    orders: tuple[Order, ...]
    settled: frozenset[tuple[str, str]]
    aside: bool = False
    """Whether the line that it stands in speaks of judging, or to a reader."""

    @property
    def named(self) -> frozenset[str]:
        """The ids of the records that are spoken of one by one."""
        return frozenset(next(iter(c)) for c in self.candidates if len(c) == 1)

    def data(self) -> Iterator[Mark]:
        """The marks that show that a result was read: not the query's own words, unless said of a record by
        a name that is not the query's."""
        names = [
            m.owners
            for m in self.marks
            if not m.asked and (m.kind in ("id", "name") or (m.kind == "phrase" and m.value.count(" ") > 1))
        ]
        end = -1
        for mark in self.marks:
            if mark.span.start < end:
                continue
            end = mark.span.end
            if not mark.asked or (mark.kind not in NAMING and any(mark.owners & n for n in names)):
                yield mark
