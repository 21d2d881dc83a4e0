from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from arena.scripted_shopper.voucher import Voucher
from arena.scripted_shopper.wish import read_wish

DATA = Path(os.environ.get("ARENA_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))

RULES = (
    "\n\nMy budget is only `425`, but I have a voucher with the following rules:\n1. The voucher {where}.\n"
    "2. It is valid only when the total price of the products exceeds `170`.\n3. It provides {what}."
)


def test_words_price_and_services_are_told_apart() -> None:
    request = "Show me black mugs from LazMall with free delivery, priced between 11 and 206 PHP."
    (item,) = read_wish(request).items
    assert item.words == ("black", "mugs")
    assert (item.low, item.high) == (11, 206)
    assert item.services == ("official", "freeShipping")
    assert item.price_filter() == "11-206"


def test_sizes_are_not_prices() -> None:
    (item,) = read_wish("a lamp with a width between 10 and 14 inches, priced above 114 PHP").items
    assert (item.low, item.high) == (114, None)
    assert {"10", "14", "inches"} <= set(item.words)


@pytest.mark.parametrize(
    "request_text",
    [
        "Find a shop that offers these items: First, red mugs. Second, blue pots priced above 5 PHP.",
        "Find a shop offering: (1) red mugs; (2) blue pots priced above 5 PHP.",
        "I'm looking for a shop that sells both a red mug and a blue pot priced above 5 PHP.",
    ],
)
def test_lists_are_split_into_items(request_text: str) -> None:
    wish = read_wish(request_text)
    assert wish.one_shop
    assert [item.words[0] for item in wish.items] == ["red", "blue"]
    assert [item.low for item in wish.items] == [None, 5]


@pytest.mark.parametrize(
    "request_text",
    [
        "I need pendant lights with rgb light, for the kitchen, made of acrylic and size 40cm.",
        "Can you find phone cases in tpu, from the brand dorvane and of the back cover type?",
        "Looking for cordless drills with a 10 mm chuck and with 48v input voltage.",
        "Can you find shampoos from dorvane and for straight hair?",
        "Show me oversized t-shirts in purple, size medium, with a graphic print and 10 mm seams.",
    ],
)
def test_the_last_quality_of_one_thing_is_not_a_second_thing(request_text: str) -> None:
    rules = RULES.format(where="applies to all products", what="a fixed discount of `34`")
    assert len(read_wish(request_text + rules).items) == 1


def test_a_bare_list_is_split_at_its_commas() -> None:
    rules = RULES.format(where="applies to all products", what="a fixed discount of `34`")
    request = "Show me red mugs with a lid, made of steel, blue clay pots, and glass jars, 20 cm high."
    items = read_wish(request + rules).items
    assert [item.words[:2] for item in items] == [("red", "mugs"), ("blue", "clay"), ("glass", "jars")]
    assert "steel" in items[0].words
    assert "20" in items[2].words


def test_the_kind_is_told_apart_from_its_qualities() -> None:
    (item,) = read_wish(
        "Please help me find wireless earphones with wireless charging, in the color red."
    ).items
    assert item.kind == ("wireless", "earphones")
    assert item.qualities == ("wireless", "charging", "color", "red")
    assert item.features == ("wireless", "charging", "red")


@pytest.mark.parametrize(
    ("request_text", "features"),
    [
        (
            "Show me a black gadget pouch with a zipper, in red.",
            ("black", "gadget", "pouch", "zipper", "red"),
        ),
        ("Show me black mugs made of ceramic.", ("black", "mugs", "ceramic")),
        ("Find storage boxes in fabric material and in color purple.", ("storage", "boxes", "purple")),
        ("Find storage boxes in fabric material.", ("fabric", "material")),
    ],
)
def test_a_thing_is_searched_by_what_tells_it_from_others(
    request_text: str, features: tuple[str, ...]
) -> None:
    (item,) = read_wish(request_text).items
    assert item.features == features


def test_words_within_a_compound_do_not_begin_a_quality() -> None:
    (item,) = read_wish("Show me a built-in large oven, made of steel.").items
    assert "built-in" in item.kind


@pytest.mark.parametrize(
    "phrase",
    ["that can be paid by cash on delivery", "with cash on delivery", "that I can pay for upon delivery"],
)
def test_paying_on_delivery_leaves_no_word_behind(phrase: str) -> None:
    (item,) = read_wish(f"Show me red mugs {phrase}.").items
    assert item.services == ("COD",)
    assert item.words == ("red", "mugs")


def test_a_product_request_is_one_item_however_many_commas_it_has() -> None:
    assert len(read_wish("Show me a mug, a red one, and a big one, and with a lid.").items) == 1


@pytest.mark.parametrize(
    ("where", "what", "voucher"),
    [
        ("applies to all products", "a fixed discount of `34`", Voucher(425, False, 170, 34, None, None)),
        (
            "only applies to the products from the same shop",
            "a percentage discount of `21%` with a cap of `94`",
            Voucher(425, True, 170, None, 0.21, 94),
        ),
    ],
)
def test_voucher_rules_are_read(where: str, what: str, voucher: Voucher) -> None:
    assert read_wish("Looking for crayons." + RULES.format(where=where, what=what)).voucher == voucher


def test_a_request_without_a_word_still_gives_an_item() -> None:
    assert len(read_wish("").items) == 1


@pytest.mark.parametrize(("category", "share"), [("product", 1.0), ("shop", 0.8), ("voucher", 0.7)])
def test_real_requests_are_mostly_read_right(category: str, share: float) -> None:
    path = DATA / "shoppingbench" / f"synthesize_{category}_test.jsonl"
    if not path.exists():
        pytest.skip(
            f"no ShoppingBench data at {path.parent}; set ARENA_SHARED_DATA to read it from elsewhere"
        )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(map(_read_right, rows)) >= share * len(rows)


def _read_right(row: dict[str, Any]) -> bool:
    targets = row["reward"] if isinstance(row["reward"], list) else [row["reward"]]
    items = read_wish(row["query"]).items
    return len(items) == len(targets) and all(
        [item.low, item.high]
        == (next(iter(target["price"][0].values())) if "price" in target else [None, None])
        and set(item.services) == set(target.get("service", []))
        for item, target in zip(items, targets, strict=True)
    )
