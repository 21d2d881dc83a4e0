"""How fast certified problems are made from the template grammar.

The value is taken with as many processes as there are CPUs, at most two, the baseline with one; both start
with the catalog on disk, so that opening and sorting it counts. On a busy machine the clock says less than
the processor time, which is a figure of its own.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, main
from problems.shopping.catalog import Catalog
from problems.shopping.generation import Order, certified
from problems.shopping.generator import generate

PRODUCTS = 30_000
GOAL_A_MINUTE = 5_000
_CATEGORIES = ("product", "shop", "voucher")


@dataclass(frozen=True, slots=True)
class Taken:
    """What making an order took: seconds by the clock, and of processor time, children included."""

    problems: int
    wall_s: float
    cpu_s: float


def measure(quick: bool) -> Sequence[Figure]:
    """Certified problems a minute, all categories and difficulties together."""
    each = 500 if quick else 2_000
    workers = min(2, len(os.sched_getaffinity(0)))
    order = Order(dict.fromkeys(_CATEGORIES, each), seed=1)
    with tempfile.TemporaryDirectory() as folder:
        catalog = Catalog.build(Path(folder) / "catalog", generate(1, PRODUCTS))
        alone = taken(catalog, order, workers=1)
        together = taken(catalog, order, workers=workers)
    return [
        Figure(
            f"certified problems, {PRODUCTS:,} products, {workers} processes",
            together.problems / together.wall_s * 60,
            "1/min",
            baseline=alone.problems / alone.wall_s * 60,
            goal=GOAL_A_MINUTE,
            at_most=False,
        ),
        Figure(
            "certified problems a minute of processor time",
            alone.problems / alone.cpu_s * 60,
            "1/min",
            goal=GOAL_A_MINUTE / 2,
            at_most=False,
        ),
    ]


def taken(catalog: Catalog, order: Order, *, workers: int) -> Taken:
    """Make an order and throw it away."""
    wall, cpu = time.perf_counter(), _cpu_s()
    made = sum(1 for _ in certified(catalog, order, workers=workers))
    return Taken(made, time.perf_counter() - wall, _cpu_s() - cpu)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    main(measure)
