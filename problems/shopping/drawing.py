"""What is drawn for a problem: how many products, which constraints are possible, and a voucher.

Voucher distributions are ShoppingBench's (arXiv 2508.04266, `run_synthesize.py`): with P the basket's price,
a threshold T uniform in [0.1 P, 0.9 P]; a fixed discount uniform in [0.1 T, 0.5 T], or 10 to 50 % with a cap
up to T; a budget up to a tenth above the price after the voucher. One thing differs: a voucher that is not
needed to buy the basket is drawn anew (in 7 % of the released tasks the basket fits the budget without it).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from problems.shopping.certificate import NotExact, prove
from problems.shopping.levels import SIZES
from problems.shopping.product import Product
from problems.shopping.shelf import Raw
from problems.shopping.vouchers import Voucher, money, total

_MIN_TOTAL = 100
"""PHP; a voucher makes no sense on less."""
_REDRAWS = 8
"""Vouchers drawn for a basket until one is needed to buy it."""


def draw_voucher(rng: Random, voucher_type: str, price: float) -> Voucher:
    """A voucher that brings a basket of `price` PHP within its budget, drawn as ShoppingBench draws it."""
    threshold = rng.randint(math.ceil(0.1 * price), math.floor(0.9 * price))
    drawn: Raw = {"voucher_type": voucher_type, "threshold": threshold}
    if rng.random() < 113 / 250:
        face_value = rng.randint(math.ceil(0.1 * threshold), max(math.ceil(0.1 * threshold), threshold // 2))
        drawn |= {"discount_type": "fixed", "face_value": face_value}
    else:
        percent = rng.randint(10, 50)
        cap = rng.randint(min(threshold, threshold * percent // 100 + 1), threshold)
        drawn |= {"discount_type": "percentage", "discount": percent / 100, "cap": cap}
    after = Voucher.model_validate(drawn | {"budget": 0}).after(money(price))
    budget = math.ceil(after) + rng.randint(0, math.ceil(float(after) * 0.1))
    return Voucher.model_validate(drawn | {"budget": budget, "price_after_voucher": float(after)})


def needed_voucher(rng: Random, voucher_type: str, products: Sequence[Product]) -> Voucher | None:
    """A voucher by which the basket can be bought, and without which it cannot; None when there is none."""
    price = total(product.price for product in products)
    if not products or price < _MIN_TOTAL:
        return None
    shops = len({product.shop_id for product in products})
    for _ in range(_REDRAWS):
        voucher = draw_voucher(rng, voucher_type, float(price))
        try:
            proof = prove(voucher, [product.price for product in products], shops)
        except NotExact:
            return None
        if proof.affordable and proof.needed and voucher.affordable(price, shops):
            return voucher
    return None


def basket_size(rng: Random, category: str, difficulty: str) -> int:
    """How many products a problem asks for."""
    sizes = SIZES[category][difficulty]
    return rng.choices(list(sizes), weights=list(sizes.values()))[0]


def constraints(rng: Random, product: Product, *, priced: bool) -> Iterator[Raw]:
    """All that could be asked of this product, one constraint at a time."""
    if product.sku_options:
        option = rng.choice(list(product.sku_options.values()))
        keys = rng.sample(sorted(option), rng.randint(1, len(option)))
        yield {"sku_options": [{key: option[key] for key in keys}]}
    for key, values in product.attributes.items():
        if values:
            yield {"attributes": [{key: [rng.choice(values)]}]}
    for service in product.service:
        if rng.random() < 0.5:
            yield {"service": [service]}
    if priced and product.price >= 2:
        yield {"price": [_price_range(rng, product.price)]}


def _price_range(rng: Random, price: float) -> Raw:
    low = max(1, math.ceil(price * rng.uniform(0.5, 0.95)) - 1)
    high = math.floor(price * rng.uniform(1.05, 1.6)) + 1
    mode = rng.choices(("greater than", "between", "less than"), weights=(5, 4, 2))[0]
    return {mode: [None if mode == "less than" else low, None if mode == "greater than" else high]}


def with_constraint(reward: Raw, constraint: Raw) -> Raw:
    return reward | {name: [*reward.get(name, []), *value] for name, value in constraint.items()}
