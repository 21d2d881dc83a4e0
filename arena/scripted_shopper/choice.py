"""Which products to look at next, and which to take: a guess of how likely each is to be the one.

Before a view, a product's place in the search says most, since the engine sees what titles do not tell. After
a view, its own attributes and options do. A basket is as likely as its members together, so that a request
for one shop is narrowed to the few shops that turn up for every item.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arena.scripted_shopper.conversation import Conversation, KnownProduct
from arena.scripted_shopper.voucher import Voucher
from arena.scripted_shopper.wish import Item, Wish

FULL_PAGE = 10
_FIRST_PLACE = 0.6
"""How likely the first result is; the others fall with their place."""
_COMPLETE = 4.0
_PARTLY = 0.5
_STRICTNESS = 3
_UNREAD = 0.02
"""At the end, for a product whose details were not viewed."""
_UNFIT = 0.02
"""For a product outside the price range or without a service."""
_OTHER_KIND = 0.2
"""For a product whose title names the kind of another item instead."""
_UNSEEN = 0.03
"""For an item that a promising shop may have beyond the results shown."""
_TOO_DEAR = 0.02
_CHOICES = 4
"""Candidates for each item that a basket within a budget is put together from."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A product for an item, with its likelihood (not a probability: only the order means something)."""

    product: KnownProduct
    likelihood: float


@dataclass(frozen=True, slots=True)
class Basket:
    """A candidate for each item, None where none is known; `shop_id` when it must come from one shop."""

    picks: tuple[Candidate | None, ...]
    shop_id: str | None = None

    @property
    def products(self) -> tuple[KnownProduct | None, ...]:
        """The products, in the order of the items."""
        return tuple(pick.product if pick else None for pick in self.picks)


def queries(item: Item) -> list[str]:
    """What an item is searched by, the better way first: its qualities, then all its words."""
    return list(dict.fromkeys(" ".join(w) or item.text for w in (item.features, item.words, item.words[:2])))


def needs_one_shop(wish: Wish) -> bool:
    """Whether its several items must come from one shop."""
    return len(wish.items) > 1 and (wish.one_shop or (wish.voucher is not None and wish.voucher.same_shop))


def candidates(conversation: Conversation, wish: Wish, item: Item, *, final: bool = False) -> list[Candidate]:
    """The products that searches for this item showed, the likeliest first; see `best_basket` on `final`."""
    found = []
    for product_id, place in _places(conversation, item).items():
        product = conversation.products[product_id]
        kind = _OTHER_KIND if _of_another_kind(product, wish, item) else 1.0
        found.append(Candidate(product, kind * _likelihood(product, item, place, final)))
    return sorted(found, key=lambda c: -c.likelihood)


def best_basket(conversation: Conversation, wish: Wish, *, final: bool = False) -> Basket:
    """The likeliest basket by all that is known so far; `final`: there will be no more looking.

    Then what was viewed is preferred, and no item is left open in a shop; where that cannot be had, items
    without any candidate stay open, or come from different shops.
    """
    each = [candidates(conversation, wish, item, final=final) for item in wish.items]
    free = Basket(tuple(c[0] if c else None for c in each))
    if needs_one_shop(wish):
        shops = _by_shop(conversation, wish, each, final)
        together = max(shops, key=lambda basket: _worth(basket, wish), default=None)
        if together is not None and (wish.one_shop or _worth(together, wish) >= _worth(free, wish)):
            return together
    if wish.voucher is None or not all(each):
        return free
    baskets = [Basket(picks) for picks in itertools.product(*(c[:_CHOICES] for c in each))]
    return max(baskets, key=lambda basket: _worth(basket, wish))


def _of_another_kind(product: KnownProduct, wish: Wish, item: Item) -> bool:
    others = {word for other in wish.items if other is not item for word in other.kind}
    return bool(product.named(others)) and not product.named(item.kind)


def _places(conversation: Conversation, item: Item) -> dict[str, int]:
    """The products shown for this item, each with its best place in a search."""
    places: dict[str, int] = {}
    searched = queries(item)
    for call in conversation.named("find_product"):
        if call.arguments.get("q") not in searched:
            continue
        first = FULL_PAGE * (_page(call.arguments.get("page")) - 1)
        for place, record in enumerate(call.records, start=first):
            product_id = str(record["product_id"])
            places[product_id] = min(place, places.get(product_id, place))
    return places


def _page(value: object) -> int:
    return value if isinstance(value, int) else 1


def _likelihood(product: KnownProduct, item: Item, place: int, final: bool) -> float:
    fit = 1.0 if product.fits(item) else _UNFIT
    if not product.viewed:
        return fit * _FIRST_PLACE / (place + 1) * (_UNREAD if final else 1.0)
    # A place says less of what was read, but the engine knows stems and word counts that this does not.
    coverage = product.coverage(item)
    whole = _COMPLETE if not product.missing(item) else 0.0
    return fit * (whole + _PARTLY * coverage**_STRICTNESS) / math.sqrt(place + 1)


def _by_shop(
    conversation: Conversation, wish: Wish, each: Sequence[Sequence[Candidate]], final: bool
) -> Iterator[Basket]:
    """The best basket of every shop that turned up, but for shops searched in vain."""
    for shop_id in dict.fromkeys(c.product.shop_id for found in each for c in found):
        picks = tuple(next((c for c in found if c.product.shop_id == shop_id), None) for found in each)
        basket = Basket(picks, shop_id)
        unseen = [item for item, pick in zip(wish.items, picks, strict=True) if pick is None]
        if final and unseen:
            continue
        if len(unseen) < len(picks) and not any(searched_in(conversation, i, shop_id) for i in unseen):
            yield basket


def searched_in(conversation: Conversation, item: Item, shop_id: str) -> bool:
    """Whether the shop was searched for the item already."""
    return any(
        call.arguments.get("shop_id") == shop_id and call.arguments.get("q") in queries(item)
        for call in conversation.named("find_product")
    )


def _worth(basket: Basket, wish: Wish) -> float:
    worth = math.prod(_UNSEEN if pick is None else pick.likelihood for pick in basket.picks)
    return worth * (_TOO_DEAR if wish.voucher and _too_dear(basket, wish.voucher) else 1.0)


def _too_dear(basket: Basket, voucher: Voucher) -> bool:
    products = [product for product in basket.products if product is not None]
    total = sum(product.price or 0.0 for product in products)
    one_shop = len({product.shop_id for product in products}) == 1
    return total - voucher.discount(total, one_shop=one_shop) > voucher.budget
