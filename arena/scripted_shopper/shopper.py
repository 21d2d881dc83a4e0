"""The rules by which the scripted shopper acts: one decision a turn, a function of conversation and seed.

Three qualities, told apart by what they take trouble over. *Careful* searches every item with its filters,
views the closest candidates, compares them and does the sums. *Hasty* takes the first hit. *Noisy* is careful
but makes slips, drawn from the seed and the request so that they stay the same from turn to turn.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arena.scripted_shopper import voice
from arena.scripted_shopper.conversation import (
    Conversation,
    KnownProduct,
    learn,
    product_records,
    read_conversation,
    text_of,
)
from arena.scripted_shopper.voucher import Voucher
from arena.scripted_shopper.wish import Item, Wish, read_wish

Quality = Literal["careful", "hasty", "noisy"]

FIND, VIEW, RECOMMEND, TERMINATE = (
    "find_product",
    "view_product_information",
    "recommend_product",
    "terminate",
)
MAX_CALLS = 28
"""After so many calls the shopper answers with what it has."""
MAX_SHOPS = 4
"""Shops looked through for a request that one shop must fulfil."""
MAX_VIEW = 18
"""Products in one view."""
VIEWS = 3
CLOSEST = 6
"""Candidates viewed for a single item; fewer for each item of a list."""
BASKET_CHOICES = 4
"""Candidates for each item that a basket is put together from."""


@dataclass(frozen=True, slots=True)
class Act:
    """One turn: reasoning, text, and at most one tool call."""

    reasoning: str
    text: str = ""
    call: tuple[str, dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Slips:
    """The mistakes a noisy shopper makes on one request."""

    weak_search: bool = False
    no_view: bool = False
    second_best: bool = False
    misquotes: bool = False
    terse: bool = False

    @classmethod
    def drawn(cls, seed: int, request: str) -> Slips:
        """The slips for a request: each on its own with its probability."""
        rng = random.Random(hashlib.sha256(f"{seed}\n{request}".encode()).digest())
        chances = (0.3, 0.2, 0.25, 0.25, 0.25)
        return cls(*(rng.random() < chance for chance in chances))


def act(messages: Sequence[Mapping[str, Any]], tools: Sequence[str], *, quality: Quality, seed: int) -> Act:
    """The shopper's next turn. `tools` are the names on offer. Deterministic."""
    if FIND not in tools:
        return _pick(messages, quality)
    conversation = read_conversation(messages)
    wish = read_wish(conversation.request)
    if conversation.named(TERMINATE):
        return Act("The conversation is ended.", "Done.")
    if conversation.named(RECOMMEND):
        return Act(voice.ending(), call=(TERMINATE, {"status": "success"}))
    if quality == "hasty":
        return _hasty(conversation, wish)
    slips = Slips.drawn(seed, conversation.request) if quality == "noisy" else Slips()
    return _careful(conversation, wish, slips)


def _hasty(conversation: Conversation, wish: Wish) -> Act:
    chosen: list[str] = []
    for item in wish.items:
        call = {"q": " ".join(item.words[:4]) or item.text, "page": 1}
        made = conversation.result_of(FIND, call)
        if made is None:
            return Act("I search for it.", call=(FIND, call))
        chosen.extend(str(record["product_id"]) for record in made.records[:1])
    return _answer("The first one will do.", chosen)


def _careful(conversation: Conversation, wish: Wish, slips: Slips) -> Act:
    if len(conversation.calls) < MAX_CALLS:
        search = next(_searches(conversation, wish, slips), None)
        if search is not None:
            item, call = search
            return Act(voice.searching(wish, item, call, conversation, terse=slips.terse), call=(FIND, call))
        ids = [] if slips.no_view else _to_view(conversation, wish)
        if ids and len(conversation.named(VIEW)) < VIEWS:
            products = [conversation.products[i] for i in ids]
            said = voice.viewing(wish, products, terse=slips.terse)
            return Act(said, call=(VIEW, {"product_ids": ",".join(ids)}))
    basket = _basket(conversation, wish)
    rivals = [_rivals(conversation, wish, item, one) for item, one in zip(wish.items, basket, strict=True)]
    if slips.second_best:
        basket = [others[0] if others else one for one, others in zip(basket, rivals, strict=True)]
    said = voice.deciding(wish, basket, rivals, misquotes=slips.misquotes, terse=slips.terse)
    return _answer(said, [one.product_id for one in basket if one is not None])


def _answer(reasoning: str, ids: Sequence[str]) -> Act:
    if not ids:
        return Act(voice.giving_up(), call=(TERMINATE, {"status": "failure"}))
    return Act(reasoning, call=(RECOMMEND, {"product_ids": ",".join(ids)}))


def _searches(conversation: Conversation, wish: Wish, slips: Slips) -> Iterator[tuple[Item, dict[str, Any]]]:
    """The searches still to be made, the next one first."""
    for item in wish.items:
        for call in _attempts(item, slips):
            made = conversation.result_of(FIND, call)
            if made is None:
                yield item, call
            elif made.records:
                break
    if _needs_one_shop(wish):
        yield from _shop_searches(conversation, wish, slips)
    elif len(wish.items) == 1 and not slips.weak_search:
        item = wish.items[0]
        best = max((p.coverage(item) for p in _candidates(conversation, item)), default=0.0)
        for call in _attempts(item, slips):
            made = conversation.result_of(FIND, call)
            further = {**call, "page": 2}
            if made is not None and len(made.records) == 10 and best < 1.0:
                if conversation.result_of(FIND, further) is None:
                    yield item, further
                return


def _attempts(item: Item, slips: Slips, shop_id: str | None = None) -> list[dict[str, Any]]:
    """Ways of searching for an item, from the most to the least demanding."""
    words = item.words[:2] if slips.weak_search else item.words
    call: dict[str, Any] = {"q": " ".join(words) or item.text, "page": 1}
    if shop_id is not None:
        call["shop_id"] = shop_id
    price, services = item.price_filter(), ",".join(item.services)
    if slips.weak_search or not (price or services):
        return [call]
    filtered = dict(call)
    if price:
        filtered["price"] = price
    if services:
        filtered["service"] = services
    return [filtered] if shop_id is not None else [filtered, call]


def _needs_one_shop(wish: Wish) -> bool:
    return len(wish.items) > 1 and (wish.one_shop or (wish.voucher is not None and wish.voucher.same_shop))


def _shop_searches(
    conversation: Conversation, wish: Wish, slips: Slips
) -> Iterator[tuple[Item, dict[str, Any]]]:
    for shop_id in _promising_shops(conversation, wish):
        for item in wish.items:
            [call] = _attempts(item, slips, shop_id)
            made = conversation.result_of(FIND, call)
            if made is None:
                yield item, call
            elif not made.records:
                break  # this shop does not have it


def _promising_shops(conversation: Conversation, wish: Wish) -> list[str]:
    """Shops that turned up in the open searches, those with the best matches for most items first."""
    scores: dict[str, list[float]] = {}
    for at, item in enumerate(wish.items):
        for call in conversation.named(FIND):
            if "shop_id" in call.arguments or call.arguments.get("q") != " ".join(item.words):
                continue
            for record in call.records:
                product = conversation.products[str(record["product_id"])]
                row = scores.setdefault(product.shop_id, [0.0] * len(wish.items))
                row[at] = max(row[at], _title_coverage(product, item))
    order = {shop: n for n, shop in enumerate(scores)}
    ranked = sorted(scores, key=lambda s: (-sum(1 for x in scores[s] if x), -sum(scores[s]), order[s]))
    return ranked[:MAX_SHOPS]


def _title_coverage(product: KnownProduct, item: Item) -> float:
    """Coverage by the title alone, so that shops are ranked the same before and after a view."""
    return KnownProduct(product.product_id, product.rank, product.title).coverage(item)


def _candidates(conversation: Conversation, item: Item) -> list[KnownProduct]:
    """Products for an item, the best first: those that fit before those that do not."""
    found = [p for p in conversation.products.values() if p.price is not None and p.coverage(item) > 0]
    return sorted(found, key=lambda p: (not p.fits(item), -p.coverage(item), p.rank))


def _to_view(conversation: Conversation, wish: Wish) -> list[str]:
    """The next candidates to view: those that searches ranked highest, until one bears all that is wanted."""
    each = CLOSEST if len(wish.items) == 1 else CLOSEST // 2
    chosen: dict[str, None] = {}
    for item in wish.items:
        groups = [_candidates(conversation, item)]
        if _needs_one_shop(wish):
            shops = _complete_shops(conversation, wish)
            groups = [[p for p in groups[0] if p.shop_id == shop] for shop in shops] or groups
        for group in groups:
            if any(p.viewed and p.fits(item) and p.coverage(item) == 1.0 for p in group):
                continue
            order = _search_order(conversation, item)
            unseen = [p for p in group if not p.viewed and p.product_id in order]
            unseen.sort(key=lambda p: (not p.fits(item), order[p.product_id]))
            chosen.update(dict.fromkeys(p.product_id for p in unseen[:each]))
    return list(chosen)[:MAX_VIEW]


def _search_order(conversation: Conversation, item: Item) -> dict[str, int]:
    """The products that searches for this item showed, with their place in the first one that showed them.

    The engine sees attributes and options that a title does not tell, so its order is worth more than ours.
    """
    places: dict[str, int] = {}
    wanted = " ".join(item.words)
    for call in conversation.named(FIND):
        if call.arguments.get("q") in (wanted, " ".join(item.words[:2]), item.text):
            first = 10 * (int(call.arguments.get("page", 1)) - 1)
            for place, record in enumerate(call.records, start=first):
                places.setdefault(str(record["product_id"]), place)
    return places


def _complete_shops(conversation: Conversation, wish: Wish) -> list[str]:
    """The promising shops in which a search of its own found something for every item."""
    complete = []
    for shop_id in _promising_shops(conversation, wish):
        calls = [c for c in conversation.named(FIND) if c.arguments.get("shop_id") == shop_id]
        if len(calls) >= len(wish.items) and all(call.records for call in calls):
            complete.append(shop_id)
    return complete


def _basket(conversation: Conversation, wish: Wish) -> list[KnownProduct | None]:
    """The best product for each item, None where there is none."""
    choices = [_candidates(conversation, item) for item in wish.items]
    if wish.one_shop and len(wish.items) > 1:
        together = _in_one_shop(choices, wish)
        return list(together) if together else [c[0] if c else None for c in choices]
    if wish.voucher is None or not all(choices):
        return [c[0] if c else None for c in choices]
    baskets: list[tuple[KnownProduct, ...]] = list(itertools.product(*(c[:BASKET_CHOICES] for c in choices)))
    if _needs_one_shop(wish) and (together := _in_one_shop(choices, wish)):
        baskets.append(together)
    voucher = wish.voucher
    best = max(baskets, key=lambda basket: _worth(basket, wish, voucher))
    return list(best)


def _in_one_shop(choices: Sequence[Sequence[KnownProduct]], wish: Wish) -> tuple[KnownProduct, ...] | None:
    by_shop = []
    for shop_id in dict.fromkeys(p.shop_id for c in choices for p in c):
        basket = [next((p for p in c if p.shop_id == shop_id), None) for c in choices]
        found = tuple(p for p in basket if p is not None)
        if len(found) == len(choices):
            by_shop.append(found)
    return max(by_shop, key=lambda basket: _fulfilled(basket, wish), default=None)


def _fulfilled(basket: Sequence[KnownProduct], wish: Wish) -> float:
    pairs = zip(basket, wish.items, strict=True)
    return sum(product.coverage(item) + 0.5 * product.fits(item) for product, item in pairs)


def _worth(basket: Sequence[KnownProduct], wish: Wish, voucher: Voucher) -> tuple[float, float]:
    total = sum(p.price or 0.0 for p in basket)
    to_pay = total - voucher.discount(total, one_shop=len({p.shop_id for p in basket}) == 1)
    return _fulfilled(basket, wish) - (to_pay > voucher.budget), -total


def _rivals(
    conversation: Conversation, wish: Wish, item: Item, chosen: KnownProduct | None
) -> list[KnownProduct]:
    """The next best for an item, of the same shop where one shop is wanted and has one."""
    others = [p for p in _candidates(conversation, item) if p is not chosen]
    if chosen is not None and wish.one_shop:
        others.sort(key=lambda p: p.shop_id != chosen.shop_id)
    return others[:2]


def _pick(messages: Sequence[Mapping[str, Any]], quality: Quality) -> Act:
    """Pick among the candidates that the last user message gives as JSON records."""
    asked = next((text_of(m) for m in reversed(messages) if m.get("role") == "user"), "")
    text, candidates = _records_in(asked)
    if not candidates:
        return Act("", "I can shop with tools, or pick one of the products you list as JSON records.")
    if quality == "hasty":
        return Act("", f"{next(iter(candidates))}: it is the first one.")
    item = read_wish(text).items[0]
    ranked = sorted(candidates.values(), key=lambda p: (not p.fits(item), -p.coverage(item), p.rank))
    wish = Wish((item,), text=text)
    reasoning = voice.deciding(wish, [ranked[0]], [ranked[1:3]], misquotes=False, terse=False)
    return Act(reasoning, f"{ranked[0].product_id}: {voice.reason(item, ranked[0])}")


def _records_in(text: str) -> tuple[str, dict[str, KnownProduct]]:
    """The product records written into a text as JSON, and the text without them."""
    products: dict[str, KnownProduct] = {}
    kept: list[str] = []
    at = 0
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[\[{]", text):
        if match.start() < at:
            continue
        try:
            value, end = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        records = list(product_records(value))
        for record in records:
            learn(products, record)
        if records:
            kept.append(text[at : match.start()])
            at = end
    return "".join([*kept, text[at:]]), products
