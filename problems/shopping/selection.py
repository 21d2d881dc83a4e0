"""Which constraints make a product findable: enough that no product of another title fulfils them all.

Near-twins, whose titles say nearly the same, count as right answers by the rules; how far they are told apart
is what makes a problem easy or hard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from problems.shopping.certificate import holds_words
from problems.shopping.drawing import constraints, with_constraint
from problems.shopping.product import Product
from problems.shopping.scoring import TITLE_THRESHOLD
from problems.shopping.shelf import Raw, Shelved, fulfils, pairs
from problems.shopping.similarity import TitleSimilarity

_FEW = 48
"""So few products that are left are compared one by one; with more left, another constraint is tried."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the constraints of one target must achieve.

    At least `least` are asked, where the product has so many. With `twins`, near-twins are told apart as far
    as that goes; with `alone`, wholly. No constraint holds the words `untold`.
    """

    least: int
    twins: bool
    alone: bool = False
    priced: bool = True
    untold: str = ""
    threshold: float = TITLE_THRESHOLD
    """The similarity from which the rules take two titles as the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one target, and how many products of those looked at have it all, itself included."""

    reward: Raw
    satisfying: int


def ask(rng: Random, one: Shelved, among: int, demand: Demand, similarity: TitleSimilarity) -> Asked | None:
    """Constraints that `one` fulfils and no product of another title in `among` does; None if there are none.

    `among` is a set of products of its kind (see `shelf`).
    """
    possible = [
        constraint
        for constraint in constraints(rng, one.product, priced=demand.priced)
        if not demand.untold or not any(holds_words(value, demand.untold) for _, value in pairs(constraint))
    ]
    rng.shuffle(possible)
    reward: Raw = {"product_id": one.product.product_id, "title": [one.product.title]}
    left, count = among, 0
    for constraint in possible:
        narrower = left & one.kind.having(constraint)
        if count >= demand.least and narrower == left:
            continue
        reward, left, count = with_constraint(reward, constraint), narrower, count + 1
        if count >= demand.least and left.bit_count() <= _FEW:
            twins, rivals = _others(one, reward, left, demand, similarity)
            if not rivals and not (twins and demand.twins):
                return Asked(reward, 1 + len(twins))
    if not count or left.bit_count() > _FEW:
        return None
    twins, rivals = _others(one, reward, left, demand, similarity)
    return None if rivals or (twins and demand.alone) else Asked(reward, 1 + len(twins))


def has_twins(
    one: Shelved, reward: Raw, near: Sequence[Product], demand: Demand, similarity: TitleSimilarity
) -> bool:
    """Whether one of `near` has nearly the target's title and lacks something of what is asked."""
    return any(
        other.product_id != one.product.product_id
        and similarity.similarity(other.title, one.product.title) >= demand.threshold
        and not fulfils(other, reward)
        for other in near
    )


def _others(
    one: Shelved, reward: Raw, left: int, demand: Demand, similarity: TitleSimilarity
) -> tuple[list[Product], list[Product]]:
    """The other products in `left` that have all of `reward`: near-twins, and rivals with another title."""
    twins: list[Product] = []
    rivals: list[Product] = []
    for other in one.kind.of(left & ~(1 << one.place)):
        if fulfils(other, reward):
            like = similarity.similarity(other.title, one.product.title) >= demand.threshold
            (twins if like else rivals).append(other)
    return twins, rivals
