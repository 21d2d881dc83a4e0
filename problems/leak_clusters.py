"""Which problems are variants of one another.

Problems that share a leak key, or ask nearly the same thing, form one leak cluster; so do problems linked
through others. Clusters are the unit of every split and draw: whoever has seen one member has seen them all.

Pure: the same problems give the same clusters, in whatever order they come.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from problems.problem import AnsweredProblem

SHINGLE = 3
"""Consecutive words that make one shingle."""
NEAR = 0.8
"""Queries whose shingle sets have at least this Jaccard similarity ask nearly the same thing."""


def query_key(query: str) -> str:
    """A leak key that is equal for queries that differ only in case, punctuation, spacing and numbers."""
    words = [re.sub(r"\d+", "#", word) for word in _words(query)]
    return "query:" + hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def leak_clusters(problems: Iterable[AnsweredProblem]) -> dict[str, str]:
    """The cluster id of each problem, by problem id.

    A cluster's id is a hash of its smallest problem id. Raises ValueError when two problems share an id.
    """
    listed = sorted(problems, key=lambda p: p.problem.problem_id)
    ids = [p.problem.problem_id for p in listed]
    repeated = [name for name, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ValueError(f"problem ids must be unique; {repeated[0]!r} is not")
    union = _Union(len(listed))
    first_with: dict[str, int] = {}
    for i, problem in enumerate(listed):
        for key in problem.leak_keys:
            union.join(first_with.setdefault(key, i), i)
    for i, j in near_pairs([shingles(p.problem.query) for p in listed]):
        union.join(i, j)
    return {name: _cluster_id(ids[union.root(i)]) for i, name in enumerate(ids)}


def members(clusters: Mapping[str, str]) -> dict[str, list[str]]:
    """The problem ids of each cluster, sorted, by cluster id in sorted order."""
    grouped: dict[str, list[str]] = {}
    for problem_id, cluster_id in sorted(clusters.items()):
        grouped.setdefault(cluster_id, []).append(problem_id)
    return dict(sorted(grouped.items()))


def shingles(query: str) -> frozenset[str]:
    """The word shingles of a query; of one shorter than a shingle, the whole."""
    words = _words(query)
    return frozenset(" ".join(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1)))


def near_pairs(sets: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    """The pairs of positions whose sets have a Jaccard similarity of at least NEAR.

    Exact, by prefix filtering (Bayardo et al., "Scaling Up All Pairs Similarity Search", 2007): with elements
    in one order, rare first, two sets that near share one among their first |s| - ceil(NEAR |s|) + 1.
    """
    often = Counter(element for s in sets for element in s)
    seen: dict[str, list[int]] = {}
    pairs = []
    for i, s in enumerate(sets):
        ordered = sorted(s, key=lambda element: (often[element], element))
        prefix = ordered[: len(s) - _ceil(NEAR * len(s)) + 1]
        for j in sorted({j for element in prefix for j in seen.get(element, ())}):
            shared = len(s & sets[j])
            if shared >= NEAR * (len(s) + len(sets[j]) - shared):
                pairs.append((j, i))
        for element in prefix:
            seen.setdefault(element, []).append(i)
    return pairs


class _Union:
    """Union-find whose root is a set's smallest member."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        low, high = sorted((self.root(i), self.root(j)))
        self._parent[high] = low


def _cluster_id(smallest: str) -> str:
    return hashlib.sha256(f"leak-cluster:{smallest}".encode()).hexdigest()[:16]


def _words(query: str) -> list[str]:
    return re.findall(r"\w+", query.lower())


def _ceil(value: float) -> int:
    return -int(-value // 1)
