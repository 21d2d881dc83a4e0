"""Catalogs made from a seed: believable products, most of which have near-twins.

A near-twin shares its sibling's title, near enough that title similarity cannot tell them apart, and differs
in one or two things that a problem may ask for: an attribute, the SKUs on offer, the services, the price or
the shop. That is what makes searching such a catalog hard, as it is in a real marketplace.

Pure: the same seed and size give the same products, in the same order, on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as combinations
from random import Random

from problems.shopping.product import Product
from problems.shopping.vocabulary import BRANDS, DEPARTMENTS, FILLERS, Department, Kind

GENERATOR = "generator-1"
"""Changes with anything that changes what a seed gives."""

_PRODUCTS_A_SHOP = 30
_MAX_SKUS = 9
"""SKU options in one record, at most (ShoppingBench)."""


@dataclass(frozen=True, slots=True)
class _Shop:
    shop_id: str
    department: Department
    official: bool


@dataclass(frozen=True, slots=True)
class _Family:
    """What near-twins have in common."""

    kind: Kind
    department: Department
    brand: str
    shows_brand: bool
    words: tuple[str, ...]
    code: str
    price: float
    attributes: dict[str, str]
    sku: dict[str, tuple[str, ...]]


def generate(seed: int, count: int) -> Iterator[Product]:
    """`count` products. Raises ValueError when count is not positive."""
    if count < 1:
        raise ValueError(f"a catalog needs at least one product, not {count}")
    rng = Random(f"{GENERATOR}:{seed}")
    shops = _shops(rng, count)
    sellers_of = {d.name: [shop for shop in shops if shop.department is d] for d in DEPARTMENTS}
    ids = iter(rng.sample(range(1_000_000_000, 6_000_000_000), count))
    made = 0
    while made < count:
        family = _family(rng, rng.choice(shops).department)
        sellers = sellers_of[family.department.name]
        for _ in range(min(rng.choice((1, 2, 3, 4, 5, 6)), count - made)):
            yield _member(rng, family, rng.choice(sellers), str(next(ids)))
            made += 1


def _shops(rng: Random, count: int) -> list[_Shop]:
    """At least one shop a department; about a third of them official stores."""
    number = max(len(DEPARTMENTS), count // _PRODUCTS_A_SHOP)
    ids = rng.sample(range(100_000, 9_999_999), number)
    return [
        _Shop(str(shop_id), DEPARTMENTS[i % len(DEPARTMENTS)], rng.random() < 0.3)
        for i, shop_id in enumerate(ids)
    ]


def _family(rng: Random, department: Department) -> _Family:
    kind = rng.choice(department.kinds)
    low, high = kind.price
    return _Family(
        kind=kind,
        department=department,
        brand=rng.choice(BRANDS),
        shows_brand=rng.random() < 0.8,
        words=(rng.choice(kind.adjectives), rng.choice(kind.nouns)),
        code=f"{rng.choice('ABDEFGHKLMNPRSTVXZ')}{rng.choice('ACEGHKLMPRSTX')}{rng.randrange(10, 999)}",
        price=math.exp(rng.uniform(math.log(low), math.log(high))),
        attributes={key: rng.choice(values) for key, values in kind.attributes.items()},
        sku={
            key: tuple(rng.sample(values, rng.randint(2, min(4, len(values)))))
            for key, values in kind.sku.items()
        },
    )


def _member(rng: Random, family: _Family, shop: _Shop, product_id: str) -> Product:
    """One product of a family: its near-twin, with one or two things of its own."""
    attributes, sku = dict(family.attributes), dict(family.sku)
    price = family.price * rng.uniform(0.85, 1.2)
    for change in rng.sample(("attribute", "attribute", "sku", "price", "nothing"), rng.randint(1, 2)):
        if change == "attribute":
            key = rng.choice(sorted(attributes))
            attributes[key] = rng.choice(family.kind.attributes[key])
        elif change == "sku":
            key = rng.choice(sorted(sku))
            values = family.kind.sku[key]
            sku[key] = tuple(rng.sample(values, rng.randint(1, min(4, len(values)))))
        elif change == "price":
            price *= rng.choice((0.6, 1.5))
    kept = [key for key in attributes if rng.random() < 0.93]
    listed: dict[str, tuple[str, ...]] = {key: (attributes[key],) for key in kept}
    if family.shows_brand:
        listed["brand"] = (family.brand.lower(),)
    # Nothing here comes from elsewhere, and checking it all again is a third of the work.
    return Product.model_construct(
        product_id=product_id,
        shop_id=shop.shop_id,
        title=_title(rng, family, attributes),
        price=_price_tag(rng, price),
        service=_services(rng, shop),
        sold_count=int(math.exp(rng.uniform(0, 8))) - 1,
        sku_options=_sku_options(rng, sku),
        attributes=listed,
        brand=family.brand,
        category=f"{family.department.name} > {family.kind.leaf}",
        short_description="; ".join(f"{_words(key)}: {values[0]}" for key, values in listed.items()),
        description=_description(rng, family, attributes),
    )


def _title(rng: Random, family: _Family, attributes: dict[str, str]) -> str:
    """As sellers write: brand, name and code, with one detail and a cry, in an order of their own."""
    detail = attributes[rng.choice(sorted(attributes))].title()
    middle = [" ".join(family.words), family.code]
    if rng.random() < 0.35:
        middle.reverse()
    parts = [family.brand, *middle, detail]
    if rng.random() < 0.5:
        parts.insert(rng.choice((0, len(parts))), rng.choice(FILLERS))
    return " ".join(parts)


def _price_tag(rng: Random, price: float) -> float:
    ending = rng.choices((0.0, 0.5, 0.99), weights=(6, 1, 3))[0]
    return float(max(10, int(price))) + ending


def _services(rng: Random, shop: _Shop) -> tuple[str, ...]:
    carried = {"official": shop.official}
    carried |= {
        name: rng.random() < p for name, p in (("freeShipping", 0.45), ("COD", 0.6), ("flashsale", 0.2))
    }
    return tuple(name for name, has in carried.items() if has)


def _sku_options(rng: Random, sku: dict[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
    """The variants in stock, numbered from 1; not every combination is."""
    every = [dict(zip(sku, values, strict=True)) for values in combinations(*sku.values())]
    stocked = [option for option in every if rng.random() < 0.8] or every[:1]
    if len(stocked) > _MAX_SKUS:
        stocked = rng.sample(stocked, _MAX_SKUS)
    return {str(i): option for i, option in enumerate(stocked, start=1)}


def _description(rng: Random, family: _Family, attributes: dict[str, str]) -> str:
    details = [f"{_words(key).capitalize()}: {value}." for key, value in attributes.items()]
    rng.shuffle(details)
    closing = rng.choice(
        (
            "Please check the measurements before you order.",
            "Colors may differ slightly from the pictures.",
            "Message us for bulk orders.",
            "Packed with care and checked before shipping.",
        )
    )
    return (
        f"{family.brand} {family.words[0].lower()} {family.words[1].lower()}. {' '.join(details)} {closing}"
    )


def _words(key: str) -> str:
    return key.replace("_", " ")
