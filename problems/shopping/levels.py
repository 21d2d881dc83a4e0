"""How hard a problem is, by what is asked and by what must be told apart.

The sizes of baskets over the three difficulties, taken in their default shares, are those of ShoppingBench
(arXiv 2508.04266): shop 2/3/4 products = 89/86/75 of 250, voucher 1/2/3/4 = 22/70/80/78 of 250.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from problems.shopping.catalog import WINDOW

CATEGORIES = ("product", "shop", "voucher", "web")
DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True, slots=True)
class Level:
    """What is asked at one difficulty."""

    name: str
    least: int
    """Constraints asked of a single product, where it has so many."""
    least_in_basket: int
    """Constraints asked of each product of a basket."""
    twins: bool
    """Whether products with nearly the target's title are told apart too, as far as constraints go."""
    alone: bool = False
    """A single target must be the only product of its kind that has all that is asked, and near-twins must
    exist that lack some of it."""
    deepest: tuple[int, int] = (1, WINDOW)
    """Where a plain search shows the target, in a basket the one that is shown last: from, to."""


LEVELS: Mapping[str, Level] = {
    "easy": Level("easy", 2, 2, twins=False, deepest=(1, 5)),
    "medium": Level("medium", 3, 2, twins=True),
    "hard": Level("hard", 4, 3, twins=True, alone=True, deepest=(3, WINDOW)),
}
SHARES: Mapping[str, Mapping[str, int]] = {
    "product": {"easy": 84, "medium": 83, "hard": 83},
    "shop": {"easy": 89, "medium": 86, "hard": 75},
    "voucher": {"easy": 92, "medium": 80, "hard": 78},
    "web": {"easy": 50, "medium": 50, "hard": 50},
}
"""How often each difficulty is made where none is asked for."""
SIZES: Mapping[str, Mapping[str, Mapping[int, int]]] = {
    "product": {name: {1: 1} for name in DIFFICULTIES},
    "shop": {"easy": {2: 1}, "medium": {3: 1}, "hard": {4: 1}},
    "voucher": {"easy": {1: 22, 2: 70}, "medium": {3: 1}, "hard": {4: 1}},
    "web": {name: {1: 1} for name in DIFFICULTIES},
}
"""Products in a basket, with weights, by category and difficulty."""


def dealt(count: int, shares: Mapping[str, int]) -> dict[str, int]:
    """`count` dealt out by `shares`: whole numbers that add up, by largest remainder."""
    total = sum(shares.values())
    parts = {name: count * share // total for name, share in shares.items()}
    by_rest = sorted(shares, key=lambda name: (-(count * shares[name] % total), name))
    for name in by_rest[: count - sum(parts.values())]:
        parts[name] += 1
    return parts
