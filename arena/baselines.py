"""The public sources that everybody may build upon, and how fingerprints are taken and told apart.

Whoever forks a public baseline shares its code with all others who do: its hashes count for nobody.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys

from arena import samples, similarity
from arena.rules import SimilarityRules


@functools.cache
def public_hashes(k: int) -> frozenset[int]:
    """Every hash of `k` tokens of every sample agent."""
    found: set[int] = set()
    for name in samples.NAMES:
        found |= similarity.all_hashes(samples.source(name).decode(), k=k)
    return frozenset(found)


def own(found: frozenset[int], rules: SimilarityRules) -> frozenset[int]:
    """What of a source's fingerprints is its own."""
    return found - public_hashes(rules.k)


def scheme(rules: SimilarityRules) -> str:
    """Names how fingerprints are taken: those of two schemes say nothing of one another.

    It changes with the rules, with the baselines, and with the interpreter, whose `ast.unparse` writes the
    text that is fingerprinted.
    """
    parts = [similarity.VERSION, sys.version_info[:2], rules.k, rules.window, sorted(public_hashes(rules.k))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def thresholds(rules: SimilarityRules) -> similarity.Thresholds:
    """The part of the rules that a comparison needs."""
    return similarity.Thresholds(
        threshold=rules.threshold,
        own_fingerprints=rules.own_fingerprints,
        merged_from=rules.merged_from,
        merged_share=rules.merged_share,
    )
