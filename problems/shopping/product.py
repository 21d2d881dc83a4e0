"""One product, as ShoppingBench's product file writes it.

Records come from elsewhere and are often incomplete, so every field but the id has a default and the usual
looser spellings (a number for an id, a bare string for a list) are accepted. Field names and meanings:
ShoppingBench (arXiv 2508.04266), `documents.jsonl`. A record that a catalog wrote was checked before it was
written; `Product.stored` reads it back without checking it again, and `Listing.stored` no more of it than a
search shows.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

SERVICES = ("official", "freeShipping", "COD", "flashsale")
"""Every service a product can carry: official store (LazMall), free shipping, cash on delivery, LazFlash."""


def _text(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    return value


def _texts(value: Any) -> Any:
    if value is None:
        return ()
    if isinstance(value, str | int | float):
        return (_text(value),)
    return value


def _table(value: Any) -> Any:
    return {} if value in (None, [], "") else value


def _number(value: Any) -> Any:
    return 0 if value in (None, "") else value


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_texts)]


_BEYOND_LISTING = b',"sku_options":'
"""What follows a listing's fields in a record. No text in it looks like that: its quotes are escaped."""


class Listing(NamedTuple):
    """What a search shows of a product: the fields with which its record begins, in their order."""

    product_id: str
    shop_id: str
    title: str
    price: float
    service: tuple[str, ...]
    sold_count: int

    @classmethod
    def of(cls, product: Product) -> Listing:
        """The listing of a product."""
        return cls(*(getattr(product, name) for name in cls._fields))

    @classmethod
    def stored(cls, record: bytes) -> Listing:
        """The listing in a line that `Product.record` made; the rest, which is most of it, is not parsed."""
        fields = from_json(record[: record.index(_BEYOND_LISTING)] + b"}")
        fields["service"] = tuple(fields["service"])
        return cls(**fields)


class Product(BaseModel):
    """A product. `price` is in PHP, one for all SKUs; `sku_options` maps a number to one variant."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    product_id: Annotated[Text, Field(min_length=1, max_length=64)]
    shop_id: Annotated[Text, Field(max_length=64)] = ""
    title: Text = ""
    price: Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)] = 0.0
    service: Texts = ()
    sold_count: Annotated[int, BeforeValidator(_number), Field(ge=0, lt=2**53)] = 0
    sku_options: Annotated[dict[str, dict[str, Text]], BeforeValidator(_table)] = {}
    attributes: Annotated[dict[str, Texts], BeforeValidator(_table)] = {}
    brand: Text = ""
    category: Text = ""
    short_description: Text = ""
    description: Text = ""

    def searchable_text(self) -> str:
        """What search looks at: title, SKU values and attribute values, and no description.

        Each value stands once among the SKUs and once among the attributes, as in ShoppingBench's index.
        """
        skus = dict.fromkeys(value for option in self.sku_options.values() for value in option.values())
        attributes = dict.fromkeys(value for values in self.attributes.values() for value in values)
        return "\n".join((self.title, *skus, *attributes))

    def record(self) -> bytes:
        """This product as one line of JSON, for `stored`."""
        return self.model_dump_json().encode() + b"\n"

    @classmethod
    def stored(cls, record: bytes) -> Product:
        """The product in a line that `record` made. Nothing is checked: not for what comes from elsewhere."""
        fields = from_json(record)
        fields["service"] = tuple(fields["service"])
        fields["attributes"] = {key: tuple(values) for key, values in fields["attributes"].items()}
        return cls.model_construct(**fields)
