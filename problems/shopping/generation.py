"""Suites made to order: as many certified problems of each kind as are asked for, by several processes.

The same order on the same catalog gives the same suite, whatever the number of processes: each makes whole
batches, and batches are taken in their order (see `synthesis`).
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from problems.problem import AnsweredProblem, ProblemSuite
from problems.shopping.catalog import Catalog
from problems.shopping.facts import Fact
from problems.shopping.options import ShoppingOptions
from problems.shopping.ordering import by_difficulty, in_order
from problems.shopping.shopping_environment import NAME, VERSION, ShoppingEnvironment
from problems.shopping.synthesis import Batch, Certified, Synthesiser, SynthesisError

_BATCH_S = 600.0
"""A batch takes milliseconds; a process that needs so long for one is not coming back."""
_AHEAD = 4
"""Batches a process that are under way or waiting to be taken."""
_ALONE = 400
"""Fewer problems than this are made in this process: others would take longer to start."""

Run = Callable[[Iterable[Batch]], Iterator[list[Certified]]]


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: problems by category, over the given difficulties or their default shares.

    Of the default shares, what a small catalog does not give of one is made of an easier one.

    `facts` are what web problems ask for. Raises ValueError for an unknown category or difficulty, and for
    web problems without facts.
    """

    counts: Mapping[str, int]
    seed: int
    difficulties: Sequence[str] = ()
    facts: Sequence[Fact] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.counts.get("web") and not self.facts:
            raise ValueError("web problems are made from a knowledge file: give one, or leave web out")
        self.dealt()

    @property
    def total(self) -> int:
        """Problems in all."""
        return sum(self.counts.values())

    def dealt(self) -> dict[tuple[str, str], int]:
        """Problems by category and difficulty."""
        return by_difficulty(self.counts, self.difficulties)


def certified(catalog: Catalog, order: Order, *, workers: int | None = None) -> Iterator[Certified]:
    """The problems of an order, one by one as they are certified. Raises SynthesisError.

    `workers` processes make them (None: one for each CPU that this process may use).
    """
    count = workers or len(os.sched_getaffinity(0))
    with _running(catalog, order, 1 if order.total < _ALONE else count) as run:
        yield from in_order(
            catalog.size, order.dealt(), seed=order.seed, run=run, strict=bool(order.difficulties)
        )


def suite_of(
    problems: Iterable[AnsweredProblem], catalog: Catalog, *, name: str, options: ShoppingOptions
) -> ProblemSuite:
    """A shopping suite about a catalog, played and scored by `options`."""
    return ProblemSuite(
        name=name,
        environment=NAME,
        environment_version=VERSION,
        catalog_id=catalog.catalog_id,
        scorer=ShoppingEnvironment(catalog, options=options).scorer,
        options=options.model_dump(mode="json"),
        problems=tuple(problems),
    )


@contextmanager
def _running(catalog: Catalog, order: Order, workers: int) -> Iterator[Run]:
    if workers == 1:
        yield partial(map, Synthesiser(catalog, order.facts).batch)
        return
    # Spawned, not forked: the parent may have threads, and a fork keeps the locks that they hold.
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(catalog.directory, tuple(order.facts)),
    )
    try:
        yield partial(_ahead, pool, workers * _AHEAD)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ahead(pool: ProcessPoolExecutor, most: int, batches: Iterable[Batch]) -> Iterator[list[Certified]]:
    """The batches in order, at most `most` of them under way."""
    waiting: deque[Future[list[Certified]]] = deque()
    names = iter(batches)
    try:
        while True:
            while len(waiting) < most and (batch := next(names, None)) is not None:
                waiting.append(pool.submit(_make, batch))
            if not waiting:
                return
            yield waiting.popleft().result(timeout=_BATCH_S)
    except (BrokenProcessPool, TimeoutError):
        raise SynthesisError(
            "a process that made problems ended or hung, perhaps for want of memory: use fewer --workers"
        ) from None
    finally:
        for future in waiting:
            future.cancel()


_synthesiser: Synthesiser | None = None
"""Of a worker process."""


def _start(directory: Path, facts: Sequence[Fact]) -> None:
    global _synthesiser
    _synthesiser = Synthesiser(Catalog.open(directory), facts)


def _make(batch: Batch) -> list[Certified]:
    assert _synthesiser is not None
    return _synthesiser.batch(batch)
