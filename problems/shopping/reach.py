"""How one looks for a product of which one knows what is asked, and no more."""

from __future__ import annotations

from collections.abc import Sequence

from problems.shopping.answer import Target
from problems.shopping.catalog import PAGES, Catalog, Filters


def plain_search(
    target: Target, noun: str, *, said: Sequence[str] = (), shop_id: str | None = None
) -> tuple[str, Filters]:
    """The words and filters of a plain search: kind and constraint values, price bounds and services.

    `said` are further words that one knows (a web problem's answer), `shop_id` the shop if one knows it.
    """
    words = " ".join([*said, noun, *(value for _, value in sorted(target.pairs()))])
    filters = Filters(
        shop_id=shop_id,
        price_low=max((p.low for p in target.price if p.low is not None), default=None),
        price_high=min((p.high for p in target.price if p.high is not None), default=None),
        services=target.service,
    )
    return words, filters


def shows(catalog: Catalog, words: str, filters: Filters, product_id: str) -> bool:
    """Whether one of the pages of this search shows the product."""
    return any(
        product.product_id == product_id
        for page in range(1, PAGES + 1)
        for product in catalog.search(words, page=page, filters=filters)
    )
