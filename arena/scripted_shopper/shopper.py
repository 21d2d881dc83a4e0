"""The rules by which the scripted shopper acts: one decision a turn, a function of conversation and seed.

Three qualities, told apart by what they take trouble over. *Careful* searches every item with its filters,
views the closest candidates, compares them and does the sums. *Hasty* takes the first hit. *Noisy* is careful
but makes slips, drawn from the seed and the request so that they stay the same from turn to turn.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arena.scripted_shopper import clerk
from arena.scripted_shopper.choice import best_basket, candidates, needs_one_shop
from arena.scripted_shopper.conversation import (
    Conversation,
    KnownProduct,
    learn,
    product_records,
    read_conversation,
    text_of,
)
from arena.scripted_shopper.voice import Voice, reason
from arena.scripted_shopper.wish import Item, Wish, read_wish

Quality = Literal["careful", "hasty", "noisy"]

FIND, VIEW, RECOMMEND, TERMINATE = (
    "find_product",
    "view_product_information",
    "recommend_product",
    "terminate",
)
MAX_CALLS = 16
"""After so many calls the shopper answers with what it has."""
SHOP_SEARCHES = 3
"""Searches within a shop, for one request."""
VIEWS = 3
"""Views for one request; each shows the candidates that are likeliest by then."""
CLOSEST = (2, 2, 3)
"""Candidates that each view of a single item shows."""


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
    if clerk.SEARCH in tools:
        found = clerk.answer(read_conversation(messages), quality=quality, seed=seed)
        return Act("The answer is given.", "Done.") if found is None else Act(found[0], call=found[1])
    if FIND not in tools:
        return _pick(messages, quality, seed)
    conversation = read_conversation(messages)
    wish = read_wish(conversation.request)
    voice = Voice.drawn(seed, conversation.request, len(conversation.calls))
    if conversation.named(TERMINATE):
        return Act("The conversation is ended.", "Done.")
    if conversation.named(RECOMMEND):
        return Act(voice.ending(), call=(TERMINATE, {"status": "success"}))
    if quality == "hasty":
        return _hasty(conversation, wish, voice)
    slips = Slips.drawn(seed, conversation.request) if quality == "noisy" else Slips()
    return _careful(conversation, wish, slips, voice)


def _hasty(conversation: Conversation, wish: Wish, voice: Voice) -> Act:
    chosen: list[str] = []
    for item in wish.items:
        call = {"q": " ".join(item.words[:4]) or item.text, "page": 1}
        made = conversation.result_of(FIND, call)
        if made is None:
            return Act("I search for it.", call=(FIND, call))
        chosen.extend(str(record["product_id"]) for record in made.records[:1])
    return _answer("The first one will do.", chosen, voice)


def _careful(conversation: Conversation, wish: Wish, slips: Slips, voice: Voice) -> Act:
    if len(conversation.calls) < MAX_CALLS:
        search = next(_searches(conversation, wish, slips), None)
        if search is not None:
            item, call = search
            said = voice.searching(wish, item, call, conversation, terse=slips.terse)
            return Act(said, call=(FIND, call))
        ids = [] if slips.no_view else _to_view(conversation, wish)
        if ids:
            products = [conversation.products[i] for i in ids]
            said = voice.viewing(conversation, wish, products, terse=slips.terse)
            return Act(said, call=(VIEW, {"product_ids": ",".join(ids)}))
    basket = list(best_basket(conversation, wish, final=True).products)
    rivals = [_rivals(conversation, wish, item, one) for item, one in zip(wish.items, basket, strict=True)]
    if slips.second_best:
        basket = [others[0] if others else one for one, others in zip(basket, rivals, strict=True)]
    said = voice.deciding(conversation, wish, basket, rivals, misquotes=slips.misquotes, terse=slips.terse)
    return _answer(said, [one.product_id for one in basket if one is not None], voice)


def _answer(reasoning: str, ids: Sequence[str], voice: Voice) -> Act:
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
    basket = best_basket(conversation, wish)
    if needs_one_shop(wish) and basket.shop_id is not None:
        inside = sum("shop_id" in call.arguments for call in conversation.named(FIND))
        for item, pick in zip(wish.items, basket.picks, strict=True):
            if pick is None and inside < SHOP_SEARCHES:
                yield item, _attempts(item, slips, shop_id=basket.shop_id)[0]
    elif not slips.weak_search and len(wish.items) == 1:
        [item], [one] = wish.items, basket.products
        if one is not None and one.viewed and _doubtful(item, one):
            for call in _attempts(item, slips, words=item.words):
                if conversation.result_of(FIND, call) is None:
                    yield item, call
                return


def _doubtful(item: Item, one: KnownProduct) -> bool:
    """Whether a product lacks a quality, and its title does not even name the kind."""
    return bool(one.missing(item)) and not set(one.matched(item)) & set(item.kind)


def _attempts(
    item: Item, slips: Slips, *, words: Sequence[str] | None = None, shop_id: str | None = None
) -> list[dict[str, Any]]:
    """Ways of searching for an item, from the most to the least demanding."""
    searched = item.words[:2] if slips.weak_search else item.features if words is None else words
    call: dict[str, Any] = {"q": " ".join(searched) or item.text, "page": 1}
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


def _to_view(conversation: Conversation, wish: Wish) -> list[str]:
    """The next candidates to view; none when what would be taken was viewed, or views were enough."""
    views = len(conversation.named(VIEW))
    if views >= VIEWS:
        return []
    best = [product for product in best_basket(conversation, wish).products if product is not None]
    if len(wish.items) == 1 and any(not product.viewed for product in best):
        best = _closest(conversation, wish)[: CLOSEST[views]]
    return list(dict.fromkeys(product.product_id for product in best if not product.viewed))


def _closest(conversation: Conversation, wish: Wish) -> list[KnownProduct]:
    """The likeliest product that was not viewed, and others whose titles promise more.

    Where its title promises nothing, the next ones are as good.
    """
    [item] = wish.items
    unseen = [c.product for c in candidates(conversation, wish, item) if not c.product.viewed]
    if not unseen or not (promised := len(unseen[0].matched(item))):
        return unseen
    return [p for p in unseen if p is unseen[0] or len(p.matched(item)) > promised]


def _rivals(
    conversation: Conversation, wish: Wish, item: Item, chosen: KnownProduct | None
) -> list[KnownProduct]:
    """The next best for an item, of the same shop where one shop is wanted; viewed ones first."""
    others = [c.product for c in candidates(conversation, wish, item, final=True) if c.product is not chosen]
    if chosen is not None and wish.one_shop:
        others.sort(key=lambda p: p.shop_id != chosen.shop_id)
    return others[:2]


def _pick(messages: Sequence[Mapping[str, Any]], quality: Quality, seed: int) -> Act:
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
    voice = Voice.drawn(seed, text, 0)
    reasoning = voice.deciding(
        Conversation(text, ()), wish, [ranked[0]], [ranked[1:3]], misquotes=False, terse=False
    )
    return Act(reasoning, f"{ranked[0].product_id}: {reason(item, ranked[0])}")


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
