"""What tool results had shown of products, up to a point of an episode: what claims are looked up in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WORD = re.compile(r"\w+(?:[.\-']\w+)*")
"""A word, compounds and decimals included."""


@dataclass(slots=True)
class SeenProduct:
    """What results had shown of one product."""

    product_id: str
    title: str = ""
    price: float | None = None
    shop_id: str = ""
    values: set[tuple[str, ...]] = field(default_factory=set)
    """Attribute, option and service values, as lower-cased words."""


@dataclass(slots=True)
class Seen:
    """Everything results had shown up to a point of an episode. Grows by `add`."""

    products: dict[str, SeenProduct] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    results: int = 0
    """How many results that were not errors and not empty."""

    def add(self, result: Any) -> None:
        """Take in one tool result (a JSON value)."""
        if result in (None, "", [], {}):
            return
        self.results += 1
        for record in _records(result):
            self._add_record(record)
        self.numbers.update(_numbers(result))

    def _add_record(self, record: Mapping[str, Any]) -> None:
        key = str(record["product_id"]).lower()
        product = self.products.setdefault(key, SeenProduct(key))
        if isinstance(title := record.get("title"), str):
            product.title = title
        price = record.get("price")
        if isinstance(price, (int, float)) and not isinstance(price, bool):
            product.price = float(price)
        if "shop_id" in record:
            product.shop_id = str(record["shop_id"])
        for name in ("attributes", "sku_options", "service"):
            for value in _leaves(record.get(name)):
                words = tuple(words_of(value))
                if words and sum(map(len, words)) >= 2:
                    product.values.add(words)


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return [m.group().lower() for m in WORD.finditer(text)]


def _records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if "product_id" in value:
            yield value
        for inner in value.values():
            yield from _records(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _records(inner)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _numbers(value: Any) -> Iterator[str]:
    for leaf in _leaves(value):
        yield from re.findall(r"\d+", leaf)
