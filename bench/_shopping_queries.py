"""Searches as shoppers make them, drawn from the products of a catalog, for `bench.search`."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from problems.shopping.catalog import Catalog, Filters, Product, Sort

KINDS = ("plain", "price", "service", "shop", "all filters", "rare", "no match")
_SORTS: tuple[Sort, ...] = ("default", "default", "priceasc", "order")
_CODE = re.compile(r"[A-Z]{2}\d+")
_BEYOND_ALL_PRICES = 10_000_000.0


@dataclass(frozen=True, slots=True)
class Query:
    """A search, and the product it was made from."""

    kind: str
    q: str
    filters: Filters
    sort: Sort
    product_id: str

    def arguments(self) -> dict[str, Any]:
        """As an agent writes it, for `find_product`."""
        low, high = self.filters.price_low, self.filters.price_high
        wanted = {
            "shop_id": self.filters.shop_id,
            "price": f"{_plain(low)}-{_plain(high)}" if low is not None or high is not None else None,
            "service": ",".join(self.filters.services) or None,
            "sort": None if self.sort == "default" else self.sort,
        }
        return {"q": self.q, "page": 1} | {name: value for name, value in wanted.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Flat, for another program."""
        return {"q": self.q, "sort": self.sort, **asdict(self.filters)}


def queries(catalog: Catalog, count: int, seed: int = 1) -> list[Query]:
    """`count` searches, as many of each kind, in turn."""
    rng = Random(f"queries:{seed}")
    return [
        _query(
            rng, catalog.at(rng.randrange(len(catalog))), KINDS[i % len(KINDS)], _SORTS[i // len(KINDS) % 4]
        )
        for i in range(count)
    ]


def known_items(catalog: Catalog, count: int, seed: int = 1) -> list[Query]:
    """`count` searches for a product by a few words of its title, without filters."""
    rng = Random(f"known:{seed}")
    products = (catalog.at(rng.randrange(len(catalog))) for _ in range(count))
    return [
        Query("known item", _words(rng, product), Filters(), "default", product.product_id)
        for product in products
    ]


def _query(rng: Random, product: Product, kind: str, sort: Sort) -> Query:
    q = _words(rng, product)
    low, high = float(int(product.price * 0.8)), float(int(product.price * 1.25) + 1)
    services = product.service[:1] or ("COD",)
    match kind:
        case "price":
            filters = Filters(price_low=low, price_high=high)
        case "service":
            filters = Filters(services=services)
        case "shop":
            filters = Filters(shop_id=product.shop_id)
        case "all filters":
            filters = Filters(product.shop_id, low, high, product.service[:1])
        case "no match":
            filters = Filters(price_low=_BEYOND_ALL_PRICES)
        case _:
            filters = Filters()
    if kind == "rare" and (code := _CODE.search(product.title)):
        q = code.group()
    return Query(kind, q, filters, sort, product.product_id)


def _words(rng: Random, product: Product) -> str:
    """Two to four words of the title."""
    words = product.title.split()
    return " ".join(rng.sample(words, min(len(words), rng.randint(2, 4))))


def _plain(bound: float | None) -> str:
    return "" if bound is None else f"{bound:g}" if bound < 1e6 else f"{bound:.0f}"
