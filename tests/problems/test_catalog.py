"""A catalog finds what a plain scan would find, and is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.shopping.catalog import WINDOW, Catalog, CatalogError, Filters, Listing, Product, Sort
from problems.shopping.generator import generate
from problems.shopping.product import SERVICES

WORDS = st.sampled_from(
    ["phone case", "black shampoo", "waterproof", "cotton dress xl", "led light drill", "zzz"]
)
BOUND = st.none() | st.integers(0, 3000).map(float)


@pytest.fixture(scope="module")
def scanned(catalog: Catalog) -> list[tuple[Product, set[str]]]:
    return [(product, set(catalog.words(product.searchable_text()))) for product in catalog]


@settings(max_examples=60, deadline=None)
@given(
    q=WORDS, low=BOUND, high=BOUND, services=st.sets(st.sampled_from(SERVICES), max_size=2), data=st.data()
)
def test_filters_let_through_what_a_scan_lets_through(
    catalog: Catalog,
    scanned: list[tuple[Product, set[str]]],
    q: str,
    low: float | None,
    high: float | None,
    services: set[str],
    data: st.DataObject,
) -> None:
    shop = data.draw(st.none() | st.sampled_from(sorted({p.shop_id for p, _ in scanned})))
    words = set(catalog.words(q))
    expected = {
        i
        for i, (p, text) in enumerate(scanned)
        if words & text
        and (low is None or p.price >= low)
        and (high is None or p.price <= high)
        and services <= set(p.service)
        and shop in (None, p.shop_id)
    }
    found = catalog.window(q, Filters(shop, low, high, tuple(services)))
    assert len(found) == len(set(found)) == min(len(expected), WINDOW)
    assert set(found) <= expected


@pytest.mark.parametrize("sort", ["priceasc", "pricedesc", "order"])
def test_sorting_reorders_the_most_relevant_and_adds_none(catalog: Catalog, sort: Sort) -> None:
    by_relevance = catalog.window("black phone case")
    ordered = catalog.window("black phone case", sort=sort)
    assert set(ordered) == set(by_relevance)
    products = list(catalog)
    keys = [products[i].sold_count if sort == "order" else products[i].price for i in ordered]
    assert keys == sorted(keys, reverse=sort != "priceasc")


def test_pages_divide_the_window(catalog: Catalog) -> None:
    products = list(catalog)
    pages = [p for page in range(1, 6) for p in catalog.search("black", page=page)]
    assert pages == [Listing.of(products[i]) for i in catalog.window("black")]
    with pytest.raises(ValueError, match="1 to 5"):
        catalog.search("black", page=6)


def test_a_record_is_found_by_its_id_as_it_was_given(catalog: Catalog) -> None:
    for product in generate(7, 900):
        assert catalog.get(product.product_id) == product
    assert catalog.get("") is None


def test_building_the_same_again_keeps_what_is_there(tmp_path: Path) -> None:
    first = Catalog.build(tmp_path / "c", generate(1, 50))
    written = (tmp_path / "c" / "catalog.json").stat().st_mtime_ns
    assert Catalog.build(tmp_path / "c", generate(1, 50)).catalog_id == first.catalog_id
    assert (tmp_path / "c" / "catalog.json").stat().st_mtime_ns == written
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    with pytest.raises(CatalogError, match="another folder"):
        Catalog.build(tmp_path / "c", generate(2, 50))


def test_what_a_killed_build_left_is_removed_and_never_opened(tmp_path: Path) -> None:
    gone = 2**22 - 3
    (tmp_path / f".c.{gone}.x" / "index").mkdir(parents=True)
    with pytest.raises(CatalogError, match="no catalog"):
        Catalog.open(tmp_path / "c")
    Catalog.build(tmp_path / "c", generate(1, 5))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_two_products_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="'1'"):
        Catalog.build(tmp_path / "c", [Product(product_id="1"), Product(product_id="1", title="x")])
    assert list(tmp_path.iterdir()) == []


def test_incomplete_records_are_accepted() -> None:
    product = Product.model_validate(
        {"product_id": 5, "service": "COD", "price": None, "attributes": {"a": "b"}}
    )
    assert product.product_id == "5"
    assert product.service == ("COD",)
    assert product.attributes == {"a": ("b",)}
