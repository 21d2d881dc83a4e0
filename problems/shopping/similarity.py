"""How alike two product titles are: a number, and the name of the way it was found.

The name goes into every outcome, because success depends on it: outcomes that were scored with different
similarities must not be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rapidfuzz import fuzz, utils


class TitleSimilarity(Protocol):
    """Similarity of titles in [0, 1] or, for embeddings, [-1, 1]. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Which similarity this is, with its version."""

    def similarity(self, candidate: str, truth: str) -> float:
        """How alike the two titles are."""


class LexicalSimilarity:
    """Similarity of the two titles' words, whatever their order, case and punctuation.

    RapidFuzz's token sort ratio: 1 minus the normalised Indel distance between the sorted words.
    """

    name = "lexical-1"

    def similarity(self, candidate: str, truth: str) -> float:
        """The token sort ratio of the two titles, in [0, 1]."""
        return fuzz.token_sort_ratio(candidate, truth, processor=utils.default_process) / 100


class UnknownPair(LookupError):
    """A precomputed table lacks a pair of titles that a rule had to compare."""


class PrecomputedSimilarity:
    """Similarities found earlier, by `candidate||truth`: for scoring where no embedding model is at hand."""

    def __init__(self, table: Mapping[str, float], *, name: str = "precomputed") -> None:
        self.name = name
        self._table = dict(table)

    def similarity(self, candidate: str, truth: str) -> float:
        """The stored similarity. Raises UnknownPair when the table lacks it."""
        try:
            return self._table[f"{candidate}||{truth}"]
        except KeyError:
            raise UnknownPair(
                f"no similarity is stored for {candidate!r} against {truth!r}: add it to the table"
            ) from None
