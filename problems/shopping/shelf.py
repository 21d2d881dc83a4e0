"""Which products have what, quickly: the question that making and checking problems asks all the time.

Products are grouped by kind (their category), and within a kind by what they have. A set of products of one
kind is an integer whose bit i stands for the kind's i-th product, so that asking for one thing more is one
`&`. Those sets are as wide as they can be with SKU options taken one pair at a time: `fulfils` has the last
word on the few that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from problems.shopping.answer import PriceRange
from problems.shopping.product import Product

Raw = dict[str, Any]
"""A target as ShoppingBench writes it: `product_id`, `title` and constraints, each a list."""

MOST = 300_000
"""Products of a larger catalog are not all held: whole kinds are drawn until there are about so many."""


class Products(Protocol):
    """A catalog, or a list."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Product]: ...


@dataclass(frozen=True, slots=True)
class Shelved:
    """A product with its place: in the catalog, and in its kind."""

    product: Product
    row: int
    place: int
    kind: Kind


class Kind:
    """All products of one category."""

    def __init__(self, category: str) -> None:
        self.category = category
        self.noun = category.rsplit(">", 1)[-1].strip().lower()
        """What a shopper calls it: the last part of the category."""
        self.products: list[Product] = []

    @property
    def every(self) -> int:
        """The set of all its products."""
        return (1 << len(self.products)) - 1

    def having(self, constraint: Raw) -> int:
        """The products that have all that `constraint` asks for, option pairs taken one at a time."""
        found = self.every
        for service in constraint.get("service", ()):
            found &= self._services.get(service, 0)
        for price in constraint.get("price", ()):
            bounds = PriceRange.model_validate(price)
            fits = np.ones(len(self.products), dtype=bool)
            if bounds.low is not None:
                fits &= self._prices >= bounds.low
            if bounds.high is not None:
                fits &= self._prices <= bounds.high
            found &= _bits(fits)
        for pair in pairs(constraint):
            found &= self._pairs.get(pair, 0)
        return found

    def of_shop(self, shop_id: str) -> int:
        """The products of a shop."""
        return self._shops.get(shop_id, 0)

    def fulfilling(self, reward: Raw, among: int | None = None) -> list[Product]:
        """The products that have all that `reward` asks for, exactly; `among` a set, or all."""
        left = self.having(reward) & (self.every if among is None else among)
        return [product for product in self.of(left) if fulfils(product, reward)]

    def of(self, members: int) -> Iterator[Product]:
        """The products of a set, in catalog order."""
        while members:
            lowest = members & -members
            yield self.products[lowest.bit_length() - 1]
            members ^= lowest

    @cached_property
    def _prices(self) -> npt.NDArray[np.float64]:
        return np.array([product.price for product in self.products])

    @cached_property
    def _services(self) -> Mapping[str, int]:
        return _sets((service, at) for at, p in enumerate(self.products) for service in p.service)

    @cached_property
    def _shops(self) -> Mapping[str, int]:
        return _sets((p.shop_id, at) for at, p in enumerate(self.products))

    @cached_property
    def _pairs(self) -> Mapping[tuple[str, str], int]:
        return _sets((pair, at) for at, p in enumerate(self.products) for pair in _pairs_of(p))


class Shelf:
    """The products that problems are made of, by kind and by shop."""

    def __init__(self, products: Products, *, most: int = MOST) -> None:
        """Sort the products."""
        kept = None if len(products) <= most else _kinds_within(products, most)
        self.kinds: dict[str, Kind] = {}
        self.products: list[Shelved] = []
        self.by_shop: dict[str, list[Shelved]] = {}
        for row, product in enumerate(products):
            if kept is not None and product.category not in kept:
                continue
            kind = self.kinds.setdefault(product.category, Kind(product.category))
            shelved = Shelved(product, row, len(kind.products), kind)
            kind.products.append(product)
            if kind.noun:
                self.products.append(shelved)
                self.by_shop.setdefault(product.shop_id, []).append(shelved)
        self.shops = [shop for shop, listed in self.by_shop.items() if len(listed) > 1]


def fulfils(product: Product, reward: Raw) -> bool:
    """Whether `product` has all that the query of this reward would say; titles are never said."""
    if not set(reward.get("service", ())) <= set(product.service):
        return False
    if not all(PriceRange.model_validate(price).holds(product.price) for price in reward.get("price", ())):
        return False
    missing = [(key, value) for key, value in pairs(reward) if value not in product.attributes.get(key, ())]
    return not missing or any(
        all(option.get(key) == value for key, value in missing) for option in product.sku_options.values()
    )


def pairs(reward: Raw) -> list[tuple[str, str]]:
    """Every (key, value) asked for, of SKU options and attributes together."""
    asked = [pair for option in reward.get("sku_options", ()) for pair in option.items()]
    asked += [(key, v) for entry in reward.get("attributes", ()) for key, vs in entry.items() for v in vs]
    return asked


def _pairs_of(product: Product) -> set[tuple[str, str]]:
    found = {pair for option in product.sku_options.values() for pair in option.items()}
    return found | {(key, value) for key, values in product.attributes.items() for value in values}


def _sets(members: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    listed: dict[Any, list[int]] = {}
    for key, at in members:
        listed.setdefault(key, []).append(at)
    return {key: _set(places) for key, places in listed.items()}


def _set(places: Sequence[int]) -> int:
    """The places as one integer. Setting bits of an integer one by one would copy it each time."""
    bits = bytearray(max(places) // 8 + 1)
    for at in places:
        bits[at // 8] |= 1 << at % 8
    return int.from_bytes(bits, "little")


def _bits(mask: npt.NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _kinds_within(products: Iterable[Product], most: int) -> set[str]:
    """The categories to keep so that about `most` products are held."""
    sizes: dict[str, int] = {}
    for product in products:
        sizes[product.category] = sizes.get(product.category, 0) + 1
    kept, room = set(), most
    for category in Random(f"shelf:{most}").sample(sorted(sizes), len(sizes)):
        if sizes[category] <= room:
            kept.add(category)
            room -= sizes[category]
    return kept
