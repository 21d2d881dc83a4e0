"""Whatever a model writes is understood, or answered with an error; it is never ignored and never breaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from problems.environment import ToolUse
from problems.problem import canonical_json
from problems.shopping.catalog import Catalog
from problems.shopping.shopping_environment import ShoppingEnvironment
from problems.shopping.tools import ALL_TOOLS
from problems.shopping.web import Snippet, SnippetStore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from([spec.name for spec in ALL_TOOLS])
FIELDS = st.sampled_from(
    [
        *("q", "query", "page", "price", "service", "services", "sort", "shop_id"),
        *("product_ids", "product_id", "status", "max_results"),
    ]
)
NUMBERS = st.integers(-5, 10**6) | st.floats(-5, 10**6) | st.integers().map(str) | st.floats().map(str)
PRICES = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["-", " - ", " to ", "–", ",", ""]), NUMBERS).map(
        lambda parts: "".join(map(str, parts))
    ),
    st.tuples(st.sampled_from([">", "<=", "under ", "at least ", "PHP "]), NUMBERS).map(
        lambda parts: "".join(map(str, parts))
    ),
    st.lists(NUMBERS | st.none(), max_size=3),
    st.dictionaries(st.sampled_from(["min", "max", "low", "between", "max_price", "x"]), NUMBERS, max_size=3),
).flatmap(lambda value: st.sampled_from([value, json.dumps(value)]))
NEAR_MISSES = st.one_of(
    PRICES,
    st.sampled_from(["COD", "lazmall, cod", ["Free Shipping", "LazFlash"], "official and COD", ["fast"]]),
    st.lists(st.integers(0, 30) | st.integers(0, 30).map(str), max_size=25),
    st.sampled_from(
        ["hat", "1, 2", "success", "Failed", "priceAsc", "2", 2.0, 1, "[1, 2]", {"product_id": 3}]
    ),
)
"""Values that look like what a tool takes, and are written as models write them."""
ARGUMENTS = (
    JSON
    | st.dictionaries(FIELDS, JSON | NEAR_MISSES, max_size=4)
    | st.fixed_dictionaries(
        {"q": st.sampled_from(["hat", "phone case"]), "page": st.sampled_from([1, "2"])},
        optional={"price": PRICES, "service": NEAR_MISSES, "sort": NEAR_MISSES, "shop_id": NEAR_MISSES},
    )
    | st.fixed_dictionaries({"product_ids": NEAR_MISSES})
)
WRITTEN = ARGUMENTS | ARGUMENTS.map(json.dumps) | st.text() | st.binary()


@pytest.fixture(scope="module")
def environment(catalog: Catalog) -> ShoppingEnvironment:
    """With all tools, the web being a store of one snippet."""
    return ShoppingEnvironment(catalog, web=SnippetStore([Snippet(content="a violin has a bow")]))


@settings(max_examples=250, deadline=None)
@given(tool=NAMES | st.text(), arguments=WRITTEN)
def test_any_call_gets_a_reply(environment: ShoppingEnvironment, tool: str, arguments: object) -> None:
    reply = environment.call(tool, arguments)
    canonical_json(reply.content)
    if reply.arguments is not None:
        schema = next(spec.parameters for spec in ALL_TOOLS if spec.name == tool)
        Draft202012Validator(dict(schema)).validate(reply.arguments)
    if reply.error is None:
        assert reply.arguments is not None
    else:
        assert reply.content == {"error": reply.error}
    assert environment.canonical(tool, arguments) == reply.arguments


@settings(max_examples=250, deadline=None)
@given(tool=NAMES, arguments=WRITTEN)
def test_canonical_arguments_are_their_own_canonical_form(
    environment: ShoppingEnvironment, tool: str, arguments: object
) -> None:
    canonical = environment.canonical(tool, arguments)
    if canonical is not None:
        assert environment.canonical(tool, canonical) == canonical
        assert environment.canonical(tool, json.dumps(canonical)) == canonical
        assert environment.call(tool, canonical).repairs == ()


@settings(max_examples=200, deadline=None)
@given(tool=NAMES, arguments=ARGUMENTS)
def test_a_call_without_repairs_was_taken_as_written(
    environment: ShoppingEnvironment, tool: str, arguments: object
) -> None:
    """Training takes calls without repairs for clean ones: their arguments stand as they were written."""
    reply = environment.call(tool, arguments)
    if reply.error is None and not reply.repairs:
        assert isinstance(arguments, dict)
        defaults = {"sort": "default", "max_results": 5}
        assert reply.arguments == {k: v for k, v in arguments.items() if defaults.get(k) != v}


@pytest.mark.parametrize(
    ("tool", "wanted"),
    [("find_product", "price"), ("recommend_product", "product_ids")],
)
def test_what_is_tried_includes_calls_that_are_understood(
    environment: ShoppingEnvironment, tool: str, wanted: str
) -> None:
    quick = settings(phases=(Phase.generate,), max_examples=2_000, database=None, deadline=None)
    find(WRITTEN, lambda written: wanted in (environment.canonical(tool, written) or {}), settings=quick)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("375-", "375-"),
        ("375-999999", "375-999999"),
        ("35-500", "35-500"),
        ("-100", "0-100"),
        ("139.0-157.0", "139-157"),
        ("12.50-13", "12.5-13"),
        (">375", "375-"),
        ("<= 80 PHP", "0-80"),
        ("1,000-2,000", "1000-2000"),
        ("between 11 and 206", "11-206"),
        ("139.5 - 157", "139.5-157"),
        ("₱100 to ₱200", "100-200"),
        ("at least 10", "10-"),
        ("500+", "500-"),
        ([11, 206], "11-206"),
        (["11", "206"], "11-206"),
        (["11-206"], "11-206"),
        ("[11, 206]", "11-206"),
        ("[11-206]", "11-206"),
        ('{"min": 11}', "11-"),
        ({"min_price": 11, "max_price": "206"}, "11-206"),
        ({"low": None, "high": 9}, "0-9"),
        ({"between": [1, 2]}, "1-2"),
        ([None, 206], "0-206"),
        ({"min": 11}, "11-"),
        ({"min": 11, "max": 206.5}, "11-206.5"),
        ({"greater than": [375, None]}, "375-"),
    ],
)
def test_a_price_with_one_reading_is_understood(
    environment: ShoppingEnvironment, written: object, read: str
) -> None:
    reply = environment.call("find_product", {"q": "hat", "page": 1, "price": written})
    assert reply.arguments is not None
    assert reply.arguments["price"] == read
    assert bool(reply.repairs) == (written != read)


@pytest.mark.parametrize(
    "written",
    [
        *("104", 104, 104.0, "11,206", "11, 206", [104], [], {}, "cheap", "9-1", [9, 1], {"about": 5}, True),
        *(
            [None, None],
            [1, 2, 3],
            [[1, 2]],
            {"min": 1, "low": 2},
            {"min": -1},
            "-5--1",
            "1e400-",
            "[[1, 2]]",
        ),
        *("[", "{}", "[]", "[11, 206", "1-2" + " " * 99 + "3", {"min": None}, float("nan"), "NaN-", "-", "–"),
    ],
)
def test_a_price_without_one_reading_is_refused_with_the_forms(
    environment: ShoppingEnvironment, written: object
) -> None:
    reply = environment.call("find_product", {"q": "hat", "page": 1, "price": written})
    if written == []:
        assert reply.arguments == {"q": "hat", "page": 1}
        assert reply.repairs == ("price [] was taken as not given",)
    else:
        assert reply.arguments is None
        assert reply.error is not None
        assert '"100-500"' in reply.error


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("LazFlash", "flashsale"),
        ("lazmall", "official"),
        ("free shipping", "freeShipping"),
        (["COD"], "COD"),
        ("COD,official", "official,COD"),
        ("official,COD", "official,COD"),
        ("OFFICIAL", "official"),
        ("FREESHIPPING", "freeShipping"),
        (["LazMall", "cod"], "official,COD"),
        ("[COD]", "COD"),
        ("cash on delivery, Free Delivery", "freeShipping,COD"),
        ("LazMall and COD", "official,COD"),
    ],
)
def test_services_are_known_by_their_names(
    environment: ShoppingEnvironment, written: object, read: str
) -> None:
    reply = environment.call("find_product", {"q": "hat", "page": 1, "service": written})
    assert reply.arguments is not None
    assert reply.arguments["service"] == read


@pytest.mark.parametrize("written", ["fast", ["COD", "fast"], [["COD"]], {"COD": True}, 5, True, ",", [None]])
def test_an_unknown_service_is_refused_with_the_four(
    environment: ShoppingEnvironment, written: object
) -> None:
    error = environment.call("find_product", {"q": "hat", "page": 1, "service": written}).error or ""
    assert all(name in error for name in ("official", "freeShipping", "COD", "flashsale"))


@pytest.mark.parametrize(
    "written", ["1, 2", ["1", "2"], [1, 2], "[1, 2]", "1;2", [{"product_id": 1}, "2"], [1.0, 2]]
)
def test_ids_are_understood_in_any_list(environment: ShoppingEnvironment, written: object) -> None:
    reply = environment.call("recommend_product", {"product_ids": written})
    assert reply.arguments == {"product_ids": "1,2"}
    assert reply.repairs


def test_a_misnamed_argument_is_understood_and_reported(environment: ShoppingEnvironment) -> None:
    reply = environment.call("recommend_product", {"product_id": "1"})
    assert reply.arguments == {"product_ids": "1"}
    assert reply.repairs == ("product_id was read as product_ids",)


@pytest.mark.parametrize(("written", "read"), [("2", 2), (2.0, 2), (None, 1)])
def test_a_page_is_understood(environment: ShoppingEnvironment, written: object, read: int) -> None:
    reply = environment.call("find_product", {"q": "hat", "page": written})
    assert reply.arguments == {"q": "hat", "page": read}


def test_a_missing_page_is_the_first_and_reported(environment: ShoppingEnvironment) -> None:
    reply = environment.call("find_product", {"q": "hat"})
    assert reply.arguments == {"q": "hat", "page": 1}
    assert reply.repairs == ("page was missing and taken as 1",)


@pytest.mark.parametrize("written", [0, 6, 9, -1, 1.5, "two", True, float("nan"), 10**400])
def test_a_page_out_of_range_is_refused_with_the_range(
    environment: ShoppingEnvironment, written: object
) -> None:
    assert "1 to 5" in (environment.call("find_product", {"q": "hat", "page": written}).error or "")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("find_product", {"q": "hat", "page": 1, "colour": "red"}, "q, page, shop_id, price, sort, service"),
        ("find_product", {"q": "hat", "query": "cap", "page": 1}, "mean the same"),
        ("find_product", {"page": 1}, "q must say"),
        ("find_product", {"q": "", "page": 1}, "q must say"),
        ("find_product", {"q": ["hat"], "page": 1}, "q must say"),
        ("find_product", {"q": "x" * 10_000, "page": 1}, "at most 1000"),
        ("find_product", {"q": "the, of!", "page": 1}, "no word"),
        ("find_product", {"q": "hat", "page": 1, "shop_id": "nowhere"}, "no shop"),
        ("find_product", {"q": "hat", "page": 1, "sort": "best"}, "priceasc"),
        ("view_product_information", {"product_ids": ""}, "at least one"),
        ("view_product_information", {"product_ids": "nothing"}, "nothing"),
        ("view_product_information", {"product_id": "1", "product_ids": "1"}, "mean the same"),
        ("recommend_product", {"product_ids": list(range(21))}, "at most 20"),
        ("recommend_product", {"product_ids": ["x" * 65]}, "copy ids"),
        ("recommend_product", {}, "at least one"),
        ("terminate", {}, "success"),
        ("buy", {}, "recommend_product"),
        ("terminate", "{status", "not valid JSON"),
        ("terminate", ["success"], "JSON object"),
        ("terminate", None, "JSON object"),
        ("terminate", "[1]", "JSON object"),
        ("terminate", {"status": True}, "success"),
    ],
)
def test_a_refusal_says_what_would_be_right(
    environment: ShoppingEnvironment, tool: str, arguments: Any, said: str
) -> None:
    reply = environment.call(tool, arguments)
    assert reply.error is not None
    assert said in reply.error


def test_query_syntax_is_plain_text(environment: ShoppingEnvironment) -> None:
    plain = environment.call("find_product", {"q": "phone case title 5", "page": 1})
    syntax = environment.call("find_product", {"q": '+phone AND (case OR "title:[5', "page": 1})
    assert plain.content
    assert syntax.error is None


def test_known_products_are_shown_and_unknown_ones_named(environment: ShoppingEnvironment) -> None:
    found = environment.call("find_product", {"q": "phone case", "page": 1}).content[0]
    assert set(found) == {"product_id", "shop_id", "title", "price", "service", "sold_count"}
    shown = environment.call(
        "view_product_information", {"product_ids": [found["product_id"], "nothing"]}
    ).content
    assert set(shown[0]) == {"product_id", "short_description", "description", "sku_options", "attributes"}
    assert shown[1] == {"product_id": "nothing", "error": "no product has this id"}


def test_only_an_accepted_terminate_is_final(environment: ShoppingEnvironment) -> None:
    assert environment.is_final(ToolUse("terminate", {"status": "success"}))
    assert not environment.is_final(ToolUse("terminate", {}, ok=False))
    assert not environment.is_final(ToolUse("recommend_product", {"product_ids": "1"}))
