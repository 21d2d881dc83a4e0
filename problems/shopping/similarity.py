"""How alike two product titles are: a number, and the name of the way it was found.

The name goes into every outcome, because success depends on it: outcomes that were scored with different
similarities must not be compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, TypeAdapter
from rapidfuzz import fuzz, utils


class TitleSimilarity(Protocol):
    """Similarity of titles in [0, 1] or, for embeddings, [-1, 1]. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Which similarity this is, with its version."""

    def similarity(self, candidate: str, truth: str) -> float:
        """How alike the two titles are."""


class Embedder(TitleSimilarity, Protocol):
    """A similarity that can say what it compares: `problems.shopping.embedding.EmbeddingSimilarity`."""

    def vectors(self, titles: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """The titles' vectors, each of length 1."""


class LexicalSimilarity:
    """Similarity of the two titles' words, whatever their order, case and punctuation.

    RapidFuzz's token sort ratio: 1 minus the normalised Indel distance between the sorted words.
    """

    name = "lexical-1"

    def similarity(self, candidate: str, truth: str) -> float:
        """The token sort ratio of the two titles, in [0, 1]."""
        return fuzz.token_sort_ratio(candidate, truth, processor=utils.default_process) / 100


class UnknownPair(LookupError):
    """A precomputed table lacks what a rule had to compare: the answer cannot be scored, and is not wrong."""


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


class StoredEmbeddings:
    """Cosine of vectors that were made earlier, as suites carry them for their targets' titles.

    A title without a stored vector is left to `others`, which must have its vectors from the same model.
    The name holds a hash of all vectors: another file is another similarity.
    """

    def __init__(
        self, vectors: Mapping[str, Sequence[float]], *, model: str, others: Embedder | None = None
    ) -> None:
        """`model` says which model made the vectors. Raises ValueError on vectors without a direction."""
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        content = hashlib.sha256()
        for title in sorted(vectors):
            vector = np.asarray(vectors[title], dtype=np.float32)
            length = float(np.linalg.norm(vector))
            if vector.ndim != 1 or not np.isfinite(length) or length == 0:
                raise ValueError(f"the stored embedding of {title!r} is no vector with a direction")
            content.update(hashlib.sha256(title.encode("utf-8", "replace")).digest() + vector.tobytes())
            self._vectors[title] = vector / length
        if len({vector.shape for vector in self._vectors.values()}) > 1:
            raise ValueError("the stored embeddings differ in size: they are not all of one model")
        self._others = others
        self.name = f"stored-{content.hexdigest()[:12]} of {model}"
        if others is not None:
            self.name += f"+{others.name}"

    @classmethod
    def of_suite(cls, path: Path, *, model: str, others: Embedder | None = None) -> StoredEmbeddings:
        """Read `reward_title_embeddings` of every problem in a suite of subnet 15.

        Raises OSError when it cannot be read, ValueError when it is no such file or holds no embedding.
        """
        suite = _OroSuite.validate_json(path.read_bytes())
        vectors = {t: v for problem in suite for t, v in problem.reward_title_embeddings.items()}
        if not vectors:
            raise ValueError(f"{path} holds no reward_title_embeddings")
        return cls(vectors, model=model, others=others)

    def __len__(self) -> int:
        return len(self._vectors)

    def similarity(self, candidate: str, truth: str) -> float:
        """The cosine, in [-1, 1]. Raises UnknownPair when a vector is missing and nothing can make it."""
        one, other = self._vector(candidate), self._vector(truth)
        return float(np.clip(one @ other, -1.0, 1.0))

    def _vector(self, title: str) -> npt.NDArray[np.float32]:
        stored = self._vectors.get(title)
        if stored is not None:
            return stored
        if self._others is None:
            raise UnknownPair(
                f"no embedding is stored for {title!r}: name the model that made the others, to embed it now"
            )
        return self._others.vectors([title])[0]


class _OroProblem(BaseModel):
    model_config = ConfigDict(extra="ignore")

    reward_title_embeddings: dict[str, list[float]] = {}


_OroSuite = TypeAdapter(list[_OroProblem])
