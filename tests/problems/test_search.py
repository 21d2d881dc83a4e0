"""A search shows what a plain scan of all products would show, in an order that every machine shares."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.shopping.catalog import WINDOW, Catalog, Filters, Listing, Product, Sort
from problems.shopping.catalog_writer import PADDING
from problems.shopping.generator import generate
from problems.shopping.product import SERVICES

COUNT = 600
FEW = 7
"""Different shops and prices: so that ties are the rule."""


@pytest.fixture(scope="module")
def products() -> list[Product]:
    rng = Random(4)
    return [
        Product(
            product_id=str(i),
            shop_id=str(rng.randrange(FEW)),
            title=" ".join(rng.choices(("red", "blue", "shoe", "cup", "lamp"), k=rng.randint(1, 4))),
            price=float(rng.randrange(FEW)),
            sold_count=rng.randrange(FEW),
            service=tuple(s for s in SERVICES if rng.random() < 0.5),
        )
        for i in range(COUNT)
    ]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory, products: list[Product]) -> Catalog:
    return Catalog.build(tmp_path_factory.mktemp("tied") / "catalog", products)


QUERIES = st.sampled_from(["red", "shoe cup", "lamps", "blue red lamp", "none of these"])
SORTED: st.SearchStrategy[Sort] = st.sampled_from(["priceasc", "pricedesc", "order"])
FILTERS = st.builds(
    Filters,
    shop_id=st.none() | st.integers(0, FEW).map(str),
    price_low=st.none() | st.integers(0, FEW).map(float),
    price_high=st.none() | st.integers(0, FEW).map(float),
    services=st.sets(st.sampled_from(SERVICES), max_size=2).map(tuple),
)


def passing(catalog: Catalog, products: list[Product], q: str, filters: Filters) -> list[int]:
    """Positions of what shares a word with `q` and passes the filters, by a scan."""
    words = set(catalog.words(q))
    return [
        i
        for i, product in enumerate(products)
        if words & set(catalog.words(product.searchable_text()))
        and filters.shop_id in (None, product.shop_id)
        and (filters.price_low is None or product.price >= filters.price_low)
        and (filters.price_high is None or product.price <= filters.price_high)
        and set(filters.services) <= set(product.service)
    ]


def rank(product: Product, sort: Sort) -> float:
    return {"priceasc": product.price, "pricedesc": -product.price, "order": -product.sold_count}[sort]


@settings(max_examples=150, deadline=None)
@given(q=QUERIES, filters=FILTERS, sort=SORTED)
def test_an_exhaustive_sort_is_a_scan_sorted_with_ties_in_catalog_order(
    tied: Catalog, products: list[Product], q: str, filters: Filters, sort: Sort
) -> None:
    expected = sorted(passing(tied, products, q, filters), key=lambda i: rank(products[i], sort))
    assert tied.window(q, filters, sort, exhaustive=True) == expected[:WINDOW]


@settings(max_examples=150, deadline=None)
@given(q=QUERIES, filters=FILTERS, sort=SORTED)
def test_by_default_only_the_most_relevant_are_sorted_and_ties_stay_by_relevance(
    tied: Catalog, products: list[Product], q: str, filters: Filters, sort: Sort
) -> None:
    by_relevance = tied.window(q, filters)
    expected = passing(tied, products, q, filters)
    assert set(by_relevance) <= set(expected)
    assert len(by_relevance) == min(len(expected), WINDOW)
    assert tied.window(q, filters, sort) == sorted(by_relevance, key=lambda i: rank(products[i], sort))


def test_the_two_ways_of_sorting_differ_where_the_cheapest_is_not_among_the_most_relevant(
    tied: Catalog, products: list[Product]
) -> None:
    narrow = [products[i].price for i in tied.window("red blue lamp", sort="pricedesc")]
    wide = [products[i].price for i in tied.window("red blue lamp", sort="pricedesc", exhaustive=True)]
    assert wide == [float(FEW - 1)] * WINDOW
    assert narrow != wide


def test_products_of_equal_relevance_come_in_catalog_order(tied: Catalog, products: list[Product]) -> None:
    by_title: dict[str, list[int]] = {}
    for i in tied.window("lamp"):
        by_title.setdefault(products[i].title, []).append(i)
    assert max(map(len, by_title.values())) > 2
    assert all(alike == sorted(alike) for alike in by_title.values())


def test_exhaustive_changes_nothing_without_a_sort(tied: Catalog) -> None:
    assert tied.window("red shoe", exhaustive=True) == tied.window("red shoe")


def test_a_catalog_built_twice_answers_alike(tmp_path: Path, products: list[Product], tied: Catalog) -> None:
    again = Catalog.build(tmp_path / "again", products)
    assert again.catalog_id == tied.catalog_id
    for q in ("red", "blue lamp", "shoe cup red"):
        assert again.window(q) == tied.window(q)


def test_a_record_is_fetched_by_id_with_the_index_gone(tmp_path: Path) -> None:
    catalog = Catalog.build(tmp_path / "c", generate(1, 30))
    for file in (tmp_path / "c" / "index").iterdir():
        file.unlink()
    for product in generate(1, 30):
        assert catalog.get(product.product_id) == product
    assert catalog.get("absent") is None


def test_what_is_read_back_is_what_would_pass_the_checks(catalog: Catalog) -> None:
    for product in catalog:
        assert Product.model_validate(product.model_dump()) == product
        assert Product.model_validate_json(product.record()) == product == Product.stored(product.record())


@given(
    st.builds(
        Product,
        product_id=st.text(min_size=1, max_size=9),
        title=st.text() | st.just('","sku_options":{'),
        shop_id=st.text(max_size=9),
        service=st.lists(st.text(max_size=9), max_size=2).map(tuple),
        price=st.floats(0, 1e9),
        sold_count=st.integers(0, 2**53 - 1),
    )
)
def test_a_listing_is_read_from_the_start_of_a_record_whatever_the_texts_are(product: Product) -> None:
    assert Listing.stored(product.record()) == Listing.of(product)
    assert Product.stored(product.record()) == product


def test_padding_finds_nothing(tied: Catalog) -> None:
    assert tied.words(f"red {PADDING}") == ["red"]
    assert tied.window(PADDING) == []


def test_a_long_listing_is_not_put_behind_a_short_one_more_than_in_the_original(tmp_path: Path) -> None:
    """With b = 0.75, twice the average length would cost more than half of a second mention's gain."""
    filler = [Product(product_id=f"f{i}", title=f"cup saucer number {i} w{i}") for i in range(40)]
    short = Product(product_id="short", title="brass lamp")
    long = Product(
        product_id="long", title="brass lamp brass lamp with a very long and winding text on it all"
    )
    catalog = Catalog.build(tmp_path / "c", [*filler, short, long])
    assert [p.product_id for p in catalog.search("brass lamp")] == ["long", "short"]


def test_a_catalog_of_nothing_finds_nothing(tmp_path: Path) -> None:
    empty = Catalog.build(tmp_path / "c", [])
    assert (len(empty), empty.search("red"), empty.get("1"), empty.has_shop("1")) == (0, [], None, False)
