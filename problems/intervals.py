"""Intervals for shares and means. Pure; randomness is a seed passed in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """A share of `n` with its Wilson score interval."""

    successes: int
    n: int
    share: float | None
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """The share as a JSON object."""
        return asdict(self)


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> Share:
    """The Wilson score interval of a binomial share (Wilson 1927, JASA 22).

    Treats the `n` trials as independent. With none, the share is None and the interval is all of [0, 1].
    Raises ValueError when successes are not within 0..n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: successes must be between 0 and n")
    if n == 0:
        return Share(0, 0, None, 0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Share(successes, n, share, low, high)


def clustered_ratio_interval(
    totals: Mapping[str, tuple[float, float]], *, seed: int, draws: int = 2000, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of sum(numerator) / sum(denominator), resampling whole clusters.

    `totals` is (numerator, denominator) by cluster: rows of one cluster are not independent, so the cluster
    is what is resampled (Cameron, Gelbach and Miller 2008). None with fewer than two clusters.
    """
    pairs = np.array([totals[name] for name in sorted(totals)], dtype=np.float64)
    if len(pairs) < 2:
        return None
    chooser = np.random.default_rng(seed)
    ratios = np.sort(np.concatenate([_ratios(chooser, pairs, part) for part in _parts(draws, len(pairs))]))
    tail = (1 - confidence) / 2
    low, high = ratios[int(tail * (draws - 1))], ratios[math.ceil((1 - tail) * (draws - 1))]
    return float(low), float(high)


def _ratios(
    chooser: np.random.Generator, pairs: npt.NDArray[np.float64], draws: int
) -> npt.NDArray[np.float64]:
    """The ratio of each of `draws` samples of as many clusters as there are, with replacement."""
    sums = pairs[chooser.integers(0, len(pairs), (draws, len(pairs)))].sum(axis=1)
    ratios: npt.NDArray[np.float64] = sums[:, 0] / sums[:, 1]
    return ratios


def _parts(draws: int, size: int) -> Iterator[int]:
    """`draws` in parts that hold at most some million numbers each."""
    most = max(1, _AT_ONCE // size)
    while draws > 0:
        yield min(most, draws)
        draws -= most
