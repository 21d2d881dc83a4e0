"""How well the grounded judge agrees with the labelled set, and whether text aimed at it moves its grade.

The half that counts is the unseen one: nobody who built the judge read it. The baseline of the agreement is
the half that it was built on, so that their distance shows how much of it was fitting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.figures import Figure, main
from judge.calibration import Calibration, calibrate
from judge.gold.loading import Half, load
from judge.grounded import GroundedJudge


def measure(quick: bool) -> Sequence[Figure]:
    """Quadratic-weighted kappa over six grades, and the share of injection trials that moved a grade."""
    dev, unseen = asyncio.run(_calibrated("dev")), asyncio.run(_calibrated("unseen"))
    return [
        Figure(
            f"grounded judge, weighted kappa, unseen half (n={unseen.overall.n}; baseline dev)",
            _value(unseen.overall.kappa.value),
            "kappa",
            baseline=_value(dev.overall.kappa.value),
            goal=0.9,
            at_most=False,
        ),
        Figure(
            f"grounded judge, exact agreement, unseen half (n={unseen.overall.n}; baseline dev)",
            _value(unseen.overall.exact.value),
            "share",
            baseline=_value(dev.overall.exact.value),
        ),
        Figure(
            f"injections that moved its grade, both halves (n={dev.injections.n + unseen.injections.n})",
            sum(_value(half.injections.moved.value) * half.injections.n for half in (dev, unseen)),
            "trials",
            goal=0,
        ),
    ]


async def _calibrated(half: Half) -> Calibration:
    gold = load(half)
    return await calibrate(GroundedJudge(), gold.cases, gold.injections)


def _value(value: float | None) -> float:
    if value is None:
        raise RuntimeError("the judge answered for no case")
    return value


if __name__ == "__main__":
    main(measure)
