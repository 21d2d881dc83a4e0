"""Problems in number: batches taken in order until there are as many of each kind as were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from problems.shopping.catalog import Catalog
from problems.shopping.levels import CATEGORIES, DIFFICULTIES, SHARES, dealt
from problems.shopping.similarity import TitleSimilarity
from problems.shopping.synthesis import BATCH, Batch, Certified, Synthesiser, SynthesisError

_TRIES = 60
"""Tries a problem, before the catalog is said to be too small for it."""
_VAIN = 40
"""Batches in a row that give nothing new, after which more of them would not either."""
_REUSE = 0.05
"""Share of problems that may use targets which already stand in another: variants do occur."""


def in_order(
    size: int,
    counts: Mapping[tuple[str, str], int],
    *,
    seed: int,
    run: Callable[[Iterable[Batch]], Iterator[list[Certified]]],
    strict: bool = True,
) -> Iterator[Certified]:
    """Certified problems, as many of each (category, difficulty) as `counts` asks for, without repetitions.

    `size` is the catalog's; `run` makes batches and gives them back in order. A target that stands in another
    problem is used again in few of them only. Unless `strict`, what a small catalog does not give of a
    difficulty is made of the next in `counts` of its category. Raises SynthesisError when it is too small.
    """
    found = _Found()
    missing: dict[str, int] = {}
    left = Counter(category for category, _ in counts)
    for (category, difficulty), asked in counts.items():
        left[category] -= 1
        count = asked + missing.pop(category, 0)
        batches = (Batch(seed, category, difficulty, n) for n in range(max(4, count * _TRIES // BATCH)))
        made = vain = 0
        for batch in run(batches) if count else ():
            taken = list(islice(filter(found.takes, batch), count - made))
            yield from taken
            made += len(taken)
            vain = 0 if taken else vain + 1
            if made == count or vain == _VAIN:
                break
        if made < count and (strict or not left[category]):
            raise SynthesisError(_too_small(category, difficulty, made, count, size))
        missing[category] = count - made


@dataclass(slots=True)
class _Found:
    """The problems so far, as far as they bear on which others are taken."""

    queries: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    repeats: int = 0

    def takes(self, certified: Certified) -> bool:
        """Whether the problem is none of those, and uses none of their targets but in few cases."""
        targets = {key for key in certified.problem.leak_keys if key.startswith("product:")}
        repeated = not targets.isdisjoint(self.used)
        query = certified.problem.problem.query
        if query in self.queries or (repeated and self.repeats >= _REUSE * len(self.queries)):
            return False
        self.queries.add(query)
        self.used |= targets
        self.repeats += repeated
        return True


def _too_small(category: str, difficulty: str, made: int, count: int, size: int) -> str:
    more = "larger catalog" if category != "web" else "larger catalog, or give more facts"
    return (
        f"only {made} of {count} {difficulty} {category} problems could be certified on {size} products: ask "
        f"for fewer, or use a {more}"
    )


def synthesise(
    catalog: Catalog,
    counts: Mapping[str, int],
    *,
    seed: int,
    similarity: TitleSimilarity | None = None,
) -> list[Certified]:
    """As many certified problems of each category as `counts` asks for, in the default difficulties.

    Raises SynthesisError when the catalog is too small for that, ValueError on another category.
    """
    maker = Synthesiser(catalog, similarity=similarity)
    return list(
        in_order(catalog.size, by_difficulty(counts), seed=seed, run=partial(map, maker.batch), strict=False)
    )


def by_difficulty(counts: Mapping[str, int], difficulties: Sequence[str] = ()) -> dict[tuple[str, str], int]:
    """Counts by category dealt out over difficulties: evenly over the given ones, else in default shares.

    The hardest come first.

    Raises ValueError for an unknown category or difficulty.
    """
    for kind, given, known in (("category", counts, CATEGORIES), ("difficulty", difficulties, DIFFICULTIES)):
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"there is no {kind} {unknown[0]!r}: it is one of {', '.join(known)}")
    asked: dict[tuple[str, str], int] = {}
    for category, count in counts.items():
        shares = dealt(count, dict.fromkeys(difficulties, 1) if difficulties else SHARES[category])
        asked |= {(category, name): shares[name] for name in reversed(DIFFICULTIES) if name in shares}
    return asked
