from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from judge.constraints import Budget, PriceRange, constraints

DATA = Path(os.environ.get("ARENA_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize(
    ("query", "ranges"),
    [
        ("mugs priced above 114 PHP", [(114, None)]),
        ("mugs that cost more than 41 pesos", [(41, None)]),
        ("mugs priced between 2 and 591 PHP", [(2, 591)]),
        ("a cleaning system with a price from 415 to 1415 pesos", [(415, 1415)]),
        ("mugs under 1,200 pesos", [(None, 1200)]),
        ("a chandelier with a width between 10 and 14 inches", []),
        ("power usage from 1 to 500, and price above 552 PHP", [(552, None)]),
        ("a mug over 10 PHP and a pot priced between 20 and 30 PHP", [(10, None), (20, 30)]),
    ],
)
def test_price_phrases_are_read(query: str, ranges: list[tuple[float | None, float | None]]) -> None:
    assert list(constraints(query).prices) == [PriceRange(low, high) for low, high in ranges]


def test_services_are_read_from_their_paraphrases() -> None:
    assert constraints("LazMall mugs with complimentary shipping").services == ("official", "freeShipping")
    assert constraints("mugs with LazFlash deals, pay on delivery").services == ("COD", "flashsale")
    assert constraints("a free mug to ship home").services == ()


def test_a_voucher_is_applied_only_where_its_rules_let_it() -> None:
    fixed = Budget(amount=90, same_shop=True, threshold=100, fixed=20, share=None, cap=None)
    assert fixed.to_pay(99.99, one_shop=True) == 99.99
    assert fixed.to_pay(100, one_shop=True) == 80
    assert fixed.to_pay(100, one_shop=False) == 100
    share = Budget(amount=90, same_shop=False, threshold=100, fixed=None, share=0.5, cap=30)
    assert share.to_pay(100, one_shop=False) == 70


@pytest.mark.parametrize("category", ["product", "shop", "voucher"])
def test_real_queries_are_read_as_their_makers_meant_them(category: str) -> None:
    path = DATA / "shoppingbench" / f"synthesize_{category}_test.jsonl"
    if not path.exists():
        pytest.skip(
            f"no ShoppingBench data at {path.parent}; set ARENA_SHARED_DATA to read it from elsewhere"
        )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(_read_right(row) for row in rows) >= 0.97 * len(rows)


def _read_right(row: dict[str, Any]) -> bool:
    targets = row["reward"] if isinstance(row["reward"], list) else [row["reward"]]
    read = constraints(row["query"])
    prices = [PriceRange(*bounds) for t in targets for p in t.get("price", []) for bounds in p.values()]
    services = {name for target in targets for name in target.get("service", [])}
    right = sorted(map(repr, _floats(prices))) == sorted(map(repr, read.prices)) and services == set(
        read.services
    )
    if "voucher" not in row:
        return right
    voucher, budget = row["voucher"], read.budget
    return (
        right
        and budget is not None
        and (budget.amount, budget.threshold, budget.fixed)
        == (
            voucher["budget"],
            voucher["threshold"],
            voucher["face_value"],
        )
        and (budget.share, budget.cap) == (voucher["discount"], voucher["cap"])
        and budget.same_shop == (voucher["voucher_type"] == "shop")
    )


def _floats(ranges: list[PriceRange]) -> list[PriceRange]:
    return [
        PriceRange(*(None if bound is None else float(bound) for bound in (r.low, r.high))) for r in ranges
    ]
