"""Training side and held-out side, by leak cluster.

A cluster lies on one side as a whole, so that no variant of a held-out problem is ever trained on. The side
is a hash of seed and cluster: it does not depend on what else is in the corpus, so a cluster that was held
out stays held out when the corpus grows. Only a draw that leaves a side empty is corrected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Side = Literal["train", "heldout"]


class SplitLeak(ValueError):
    """A cluster lies on both sides, or was trained on and is now held out."""


@dataclass(frozen=True, slots=True)
class Split:
    """Which clusters lie on which side, sorted. Raises SplitLeak when one lies on both."""

    train: tuple[str, ...]
    heldout: tuple[str, ...]

    def __post_init__(self) -> None:
        refuse_overlap(self.train, self.heldout, "the split")

    def side(self, cluster: str) -> Side:
        """The side of a cluster. Raises KeyError when it is on neither."""
        if cluster in self.heldout:
            return "heldout"
        if cluster in self.train:
            return "train"
        raise KeyError(cluster)


def split(
    clusters: Iterable[str], *, heldout_fraction: float, seed: int, settled: Mapping[str, Side] | None = None
) -> Split:
    """Put each cluster on a side; of two or more, each side gets at least one.

    `heldout_fraction` is in (0, 1), the expected share of clusters held out. `settled` are sides decided
    before (by the corpus of a parent model); they are kept, and are never moved to fill an empty side.
    """
    if not 0.0 < heldout_fraction < 1.0:
        raise ValueError(f"heldout_fraction is {heldout_fraction}; it must lie between 0 and 1")
    settled = settled or {}
    order = sorted(set(clusters), key=lambda cluster: (_position(seed, cluster), cluster))
    sides: dict[str, Side] = {
        cluster: settled.get(cluster, "heldout" if _position(seed, cluster) < heldout_fraction else "train")
        for cluster in order
    }
    free = [cluster for cluster in order if cluster not in settled]
    if len(order) >= 2 and free:
        if "heldout" not in sides.values():
            sides[free[0]] = "heldout"
        elif "train" not in sides.values():
            sides[free[-1]] = "train"
    return Split(
        train=tuple(sorted(c for c, side in sides.items() if side == "train")),
        heldout=tuple(sorted(c for c, side in sides.items() if side == "heldout")),
    )


def refuse_overlap(trained: Iterable[str], heldout: Iterable[str], where: str) -> None:
    """Raise SplitLeak when a cluster is in both, naming `where` and the first few."""
    both = sorted(set(trained) & set(heldout))
    if both:
        raise SplitLeak(f"{where}: {len(both)} leak clusters are both trained on and held out: {both[:3]}")


def _position(seed: int, cluster: str) -> float:
    """Uniform in [0, 1), from a hash."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{cluster}".encode()).digest()[:8], "big") / 2**64
