"""What the shopper makes of what it has read: what a product bears, and which basket to take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from arena.scripted_shopper.choice import best_basket
from arena.scripted_shopper.conversation import KnownProduct, PastCall, read_conversation
from arena.scripted_shopper.shopper import Quality, act
from arena.scripted_shopper.voice import Voice
from arena.scripted_shopper.wish import read_wish
from problems.problem import AnsweredProblem
from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.ordering import synthesise
from problems.shopping.scoring import read_answer
from problems.shopping.shopping_environment import ShoppingEnvironment

NAMES = ("find_product", "view_product_information", "recommend_product", "terminate")


def _product(title: str = "", *, attributes: Sequence[str] = (), **more: Any) -> KnownProduct:
    return KnownProduct("1", 0, title, 50.0, "9", (), True, tuple(attributes), **more)


def _record(product_id: str, shop_id: str, title: str) -> dict[str, Any]:
    return {"product_id": product_id, "shop_id": shop_id, "title": title, "price": 10.0, "service": []}


def _talk(request: str, *calls: tuple[str, Mapping[str, Any], Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": request}]
    for at, (name, arguments, result) in enumerate(calls):
        messages += _messages(at, name, arguments, result)
    return messages


def _messages(at: int, name: str, arguments: Mapping[str, Any], result: Any) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{at}", "function": function}]},
        {"role": "tool", "tool_call_id": f"c{at}", "content": json.dumps(result)},
    ]


@pytest.mark.parametrize(
    ("request_text", "right", "wrong"),
    [
        ("Show me casual dresses with long sleeve design and in red.", "long sleeve", "short sleeve"),
        ("I need backpacks in red and that are not waterproof.", "not waterproof", "waterproof"),
        ("Show me building blocks for 3 years and above, in red.", "3 years and above", "8 years and above"),
        ("Looking for power banks in red and with 10000mah capacity.", "10000mah", "20000mah"),
    ],
)
def test_a_value_counts_only_when_all_of_it_was_asked_for(request_text: str, right: str, wrong: str) -> None:
    (item,) = read_wish(request_text).items
    one, other = _product(attributes=("red", right)), _product(attributes=("red", wrong))
    assert one.missing(item) == ()
    assert other.missing(item)
    assert one.coverage(item) > other.coverage(item)


def test_a_color_and_a_size_must_be_of_one_option() -> None:
    (item,) = read_wish("Show me t-shirts in the color red and in size xl.").items
    one = _product(options=(("red", "xl"), ("blue", "s")))
    other = _product(options=(("red", "s"), ("blue", "xl")))
    assert one.missing(item) == ()
    assert other.missing(item)


def test_a_quality_that_only_the_title_names_is_not_yet_sure() -> None:
    (item,) = read_wish("Show me t-shirts in bamboo fabric and in red.").items
    assert _product("Bamboo Tee", attributes=("red", "cotton")).missing(item) == ("bamboo",)


def test_the_words_of_a_field_are_not_missed_where_its_value_is_there() -> None:
    (item,) = read_wish("Show me t-shirts with a henley neckline and in red.").items
    assert _product(attributes=("red", "henley"), keys=("neckline",)).missing(item) == ()


def test_one_shop_is_found_where_the_searches_of_all_items_meet() -> None:
    request = (
        "Find a shop that offers these items: (1) mugs in red and in size xl; (2) pots in blue and size s."
    )
    first = [_record("11", "A", "Mug"), _record("12", "B", "Cup")]
    second = [_record("21", "C", "Pot"), _record("22", "B", "Kettle")]
    items = read_wish(request).items
    talk = _talk(
        request,
        ("find_product", {"q": " ".join(items[0].features), "page": 1}, first),
        ("find_product", {"q": " ".join(items[1].features), "page": 1}, second),
    )
    basket = best_basket(read_conversation(talk), read_wish(request), final=True)
    assert [product.product_id for product in basket.products if product] == ["12", "22"]
    assert basket.shop_id == "B"


def test_a_shop_that_was_searched_in_vain_is_left() -> None:
    request = (
        "Find a shop that offers these items: (1) mugs in red and in size xl; (2) pots in blue and size s."
    )
    items = read_wish(request).items
    queries = [" ".join(item.features) for item in items]
    talk = _talk(
        request,
        (
            "find_product",
            {"q": queries[0], "page": 1},
            [_record("11", "A", "Mug"), _record("12", "B", "Cup")],
        ),
        ("find_product", {"q": queries[1], "page": 1}, [_record("21", "C", "Pot")]),
        ("find_product", {"q": queries[1], "page": 1, "shop_id": "A"}, []),
    )
    assert best_basket(read_conversation(talk), read_wish(request)).shop_id != "A"


def test_a_basket_within_the_budget_is_preferred_to_a_likelier_one() -> None:
    request = (
        "First, mugs in red and in size xl. Second, pots in blue and in size s."
        "\n\nMy budget is only `100`, but I have a voucher with the following rules:\n"
        "1. The voucher applies to all products.\n"
        "2. It is valid only when the total price of the products exceeds `90`.\n"
        "3. It provides a fixed discount of `10`."
    )
    items = read_wish(request).items
    dear, cheap = _record("11", "A", "Mug") | {"price": 200.0}, _record("12", "B", "Mug") | {"price": 20.0}
    pot = _record("21", "C", "Pot") | {"price": 80.0}
    talk = _talk(
        request,
        ("find_product", {"q": " ".join(items[0].features), "page": 1}, [dear, cheap]),
        ("find_product", {"q": " ".join(items[1].features), "page": 1}, [pot]),
    )
    basket = best_basket(read_conversation(talk), read_wish(request))
    assert [product.product_id for product in basket.products if product] == ["12", "21"]


def test_what_was_read_is_preferred_at_the_end() -> None:
    request = "Show me mugs in red and in size xl."
    (item,) = read_wish(request).items
    talk = _talk(
        request,
        (
            "find_product",
            {"q": " ".join(item.features), "page": 1},
            [_record("11", "A", "Mug"), _record("12", "B", "Mug")],
        ),
        (
            "view_product_information",
            {"product_ids": "12"},
            [{"product_id": "12", "sku_options": {}, "attributes": {"color": ["red"], "size": ["l"]}}],
        ),
    )
    conversation, wish = read_conversation(talk), read_wish(request)
    first, last = best_basket(conversation, wish), best_basket(conversation, wish, final=True)
    assert [b.products[0].product_id for b in (first, last) if b.products[0]] == ["11", "12"]


def test_a_negation_keeps_what_it_denies() -> None:
    request = "Show me backpacks in red and that are not waterproof."
    (item,) = read_wish(request).items
    talk = _talk(
        request,
        (
            "find_product",
            {"q": " ".join(item.features), "page": 1},
            [_record("11", "A", "Bag"), _record("12", "A", "Bag")],
        ),
        (
            "view_product_information",
            {"product_ids": "11,12"},
            [
                {
                    "product_id": "11",
                    "sku_options": {},
                    "attributes": {"color": ["red"], "proof": ["not waterproof"]},
                },
                {
                    "product_id": "12",
                    "sku_options": {},
                    "attributes": {"color": ["red"], "proof": ["waterproof"]},
                },
            ],
        ),
    )
    said = [act(talk, NAMES, quality="careful", seed=seed) for seed in range(8)]
    assert all(turn.call == ("recommend_product", {"product_ids": "11"}) for turn in said)
    assert all("not waterproof" in turn.reasoning for turn in said)
    assert len({turn.reasoning for turn in said}) > 3, "seeds do not change the wording"


def test_a_voice_is_the_same_for_the_same_turn() -> None:
    assert Voice.drawn(1, "x", 2).ending() == Voice.drawn(1, "x", 2).ending()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShoppingEnvironment, list[AnsweredProblem]]:
    catalog = Catalog.build(tmp_path_factory.mktemp("world") / "catalog", generate(seed=11, count=1_200))
    made = synthesise(catalog, {"product": 20, "shop": 12, "voucher": 12}, seed=11)
    return ShoppingEnvironment(catalog), [certified.problem for certified in made]


def _played(
    environment: ShoppingEnvironment, problem: AnsweredProblem, quality: Quality
) -> Sequence[PastCall]:
    """The shopper's calls on a problem, to the end."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": problem.problem.query}]
    for at in range(32):
        turn = act(messages, NAMES, quality=quality, seed=3)
        if turn.call is None or turn.call[0] == "terminate":
            break
        name, arguments = turn.call
        messages += _messages(at, name, arguments, environment.call(name, arguments).content)
    return read_conversation(messages).calls


def test_generated_requests_are_read_right(world: tuple[ShoppingEnvironment, list[AnsweredProblem]]) -> None:
    for problem in world[1]:
        targets = read_answer(problem).reward
        items = read_wish(problem.problem.query).items
        assert len(items) == len(targets), problem.problem.query
        for item, target in zip(items, targets, strict=True):
            bounds = [(price.low, price.high) for price in target.price] or [(None, None)]
            assert [(item.low, item.high)] == bounds, item.text
            assert set(item.services) == set(target.service), item.text


def test_care_pays_on_every_category_and_stays_short(
    world: tuple[ShoppingEnvironment, list[AnsweredProblem]],
) -> None:
    environment, problems = world
    right: dict[tuple[str, Quality], list[bool]] = {}
    calls = []
    qualities: tuple[Quality, ...] = ("careful", "hasty")
    for problem in problems:
        targets = [target.product_id for target in read_answer(problem).reward]
        for quality in qualities:
            made = _played(environment, problem, quality)
            answer = next(
                (str(c.arguments["product_ids"]) for c in made if c.name == "recommend_product"), ""
            )
            found = sum(t == a for t, a in zip(targets, answer.split(","), strict=False))
            right.setdefault((problem.problem.category, quality), []).append(2 * found >= len(targets))
            if quality == "careful":
                calls.append(len(made))
    for category in ("product", "shop", "voucher"):
        assert sum(right[category, "careful"]) > 2 * sum(right[category, "hasty"]), category
    assert sorted(calls)[len(calls) // 2] <= 8
    assert max(calls) <= 18


def test_the_careful_shopper_never_asks_for_the_same_twice(
    world: tuple[ShoppingEnvironment, list[AnsweredProblem]],
) -> None:
    environment, problems = world
    for problem in problems[::3]:
        calls = _played(environment, problem, "careful")
        made = [json.dumps([call.name, dict(call.arguments)]) for call in calls]
        assert len(made) == len(set(made)), problem.problem.query
