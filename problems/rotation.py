"""The draw of a hidden problem set: nobody could know it before, anybody can check it after.

The pool is committed to by its root before the race; the block hash is chosen by the chain after that. The
draw is a pure function of both and of the race's number, so whoever has these gets the same problems in the
same order. If two validators drew differently, they would judge different races.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from problems.problem import canonical_json

DRAW = "draw-1"
"""Enters every hash; changes with the way of drawing."""


class RotationError(Exception):
    """A hidden set cannot be drawn."""


class PoolTooSmall(RotationError):
    """The pool has not enough leak clusters for the draw; the message says where and how many."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A problem of the pool, as far as the draw looks at it."""

    problem_id: str
    category: str
    cluster_id: str


def draw(
    pool: Iterable[Candidate],
    *,
    root: str,
    race_number: int,
    block_hash: str,
    size: int,
    exposed: Collection[str] = frozenset(),
    quota: Mapping[str, int] | None = None,
) -> list[str]:
    """The ids of `size` problems of the pool, in order of play; no two of one leak cluster.

    `root` is the pool's published root. `quota` says how many of each category, and must add up to `size`;
    without one, the categories share evenly, as far as they have clusters. Clusters in `exposed`, which were
    shown in some race before, come only where others run out. Raises PoolTooSmall, or ValueError when quota
    and size disagree.
    """
    order = _order(pool, (DRAW, root, race_number, block_hash))
    if size < 1:
        raise ValueError(f"a draw needs at least one problem, not {size}")
    available = {
        category: len({c.cluster_id for c in order if c.category == category})
        for category in sorted({c.category for c in order})
    }
    wanted = dict(quota) if quota is not None else even_shares(available, size)
    if quota is not None and sum(wanted.values()) != size:
        raise ValueError(f"the quota adds up to {sum(wanted.values())}, not to {size}")
    if sum(wanted.values()) < size:
        raise PoolTooSmall(f"the draw needs {size} clusters; the pool has {sum(available.values())}")
    drawn: list[Candidate] = []
    taken: set[str] = set()
    for category in sorted(wanted, key=lambda name: (available.get(name, 0) - wanted[name], name)):
        picked = _pick([c for c in order if c.category == category], wanted[category], taken, exposed)
        if len(picked) < wanted[category]:
            raise PoolTooSmall(
                f"the draw needs {wanted[category]} clusters of {category!r}, the pool has {len(picked)}: "
                "add problems to the pool, or lower the quota"
            )
        drawn += picked
    place = {candidate.problem_id: i for i, candidate in enumerate(order)}
    return sorted((c.problem_id for c in drawn), key=place.__getitem__)


def even_shares(available: Mapping[str, int], size: int) -> dict[str, int]:
    """`size` shared evenly over the categories, none above what it has; sums to less when all run out.

    Where it does not divide evenly, the earlier names get one more.
    """
    shares = dict.fromkeys(sorted(available), 0)
    left = size
    while left > 0:
        open_ones = [name for name in shares if shares[name] < available[name]]
        if not open_ones:
            break
        for name in open_ones[:left]:
            shares[name] += 1
        left -= len(open_ones[:left])
    return shares


def _order(pool: Iterable[Candidate], salt: tuple[object, ...]) -> list[Candidate]:
    """The pool in the order that the hash of salt and problem id gives."""

    def place(candidate: Candidate) -> str:
        return hashlib.sha256(canonical_json([*salt, candidate.problem_id])).hexdigest()

    order = sorted(pool, key=place)
    if len({c.problem_id for c in order}) < len(order):
        raise ValueError("the pool names a problem twice")
    return order


def _pick(
    candidates: Sequence[Candidate], count: int, taken: set[str], exposed: Collection[str]
) -> list[Candidate]:
    """The first `count` candidates of clusters not yet taken, which it marks taken; unexposed ones first."""
    picked: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: c.cluster_id in exposed):
        if len(picked) == count:
            break
        if candidate.cluster_id not in taken:
            taken.add(candidate.cluster_id)
            picked.append(candidate)
    return picked
