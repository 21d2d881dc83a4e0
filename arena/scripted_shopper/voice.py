"""The scripted shopper's reasoning, in words: its figures come from results and from the request.

A voice is drawn for each turn, so that two traces do not read alike; what is said is the same for each.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from arena.scripted_shopper.conversation import Conversation, KnownProduct
from arena.scripted_shopper.wish import Item, Wish
from arena.scripted_shopper.wording import lacking, money, phrases, price_range, short

_SERVICE_WORDS = {
    "official": "official (LazMall)",
    "freeShipping": "free shipping",
    "COD": "cash on delivery (COD)",
    "flashsale": "flash sale (LazFlash)",
}
_NAMED_VALUES = 4


@dataclass(frozen=True, slots=True)
class Voice:
    """A way of wording one turn."""

    rng: random.Random

    @classmethod
    def drawn(cls, seed: int, request: str, turn: int) -> Self:
        """The voice of a turn, always the same for the same seed, request and turn."""
        return cls(random.Random(hashlib.sha256(f"voice {seed} {turn}\n{request}".encode()).digest()))

    def searching(
        self, wish: Wish, item: Item, call: Mapping[str, Any], conversation: Conversation, *, terse: bool
    ) -> str:
        """Why this search comes next."""
        if terse:
            return self._one("I search for the next thing.", "Next search.", "I look for it.")
        said = [self._last_result(wish, conversation) if conversation.calls else self._requirements(wish)]
        words = repr(call["q"])
        plain = words == repr(" ".join(item.words)) and not conversation.calls
        if "shop_id" in call:
            shop = call["shop_id"]
            said.append(
                self._one(
                    f"Shop {shop} looks promising, so I check there for {words}.",
                    f"The other items point to shop {shop}: does it have {words} too?",
                    f"I search inside shop {shop} for {words}.",
                )
            )
        elif plain:
            said.append(self._one("I search with these words.", "I search for just that."))
        else:
            said.append(
                self._one(
                    f"I search with the words {words}.",
                    f"The telling words are {words}, so I search for those.",
                    f"Next I look for {words}.",
                )
            )
        filters = [f"{name} {call[name]}" for name in ("price", "service") if name in call]
        if filters:
            said.append(
                self._one(
                    f"Filters: {' and '.join(filters)}.",
                    f"I set {' and '.join(filters)} as filter.",
                    f"Only {' and '.join(filters)} will do, so I filter by it.",
                )
            )
        elif item.price_filter() or item.services:
            said.append("With the filters nothing was found, so I leave them out and check by hand.")
        return " ".join(said)

    def viewing(
        self, conversation: Conversation, wish: Wish, products: Sequence[KnownProduct], *, terse: bool
    ) -> str:
        """Why these products are viewed."""
        if terse:
            return self._one("I look at some of them.", "Let me see these.", "I open the first ones.")
        named = "; ".join(f"{p.product_id} ({short(p.title)}, {money(p.price)} PHP)" for p in products[:4])
        candidates = self._one(
            f"The closest results are {named}.",
            f"Most promising: {named}.",
            f"I take a closer look at {named}.",
            f"Candidates by rank and filters: {named}.",
        )
        if any(p.viewed for p in conversation.products.values()):
            read = [p for p in conversation.products.values() if p.viewed]
            return f"{self._shortcoming(wish, read[-1])} {candidates}"
        return f"{candidates} " + self._one(
            "Titles do not tell everything, so I view them.",
            "I read their attributes and options.",
            "The details will show which of them hold.",
        )

    def deciding(
        self,
        conversation: Conversation,
        wish: Wish,
        basket: Sequence[KnownProduct | None],
        rivals: Sequence[Sequence[KnownProduct]],
        *,
        misquotes: bool,
        terse: bool,
    ) -> str:
        """The comparison, the check of the constraints, and the sums, for what is recommended."""
        if terse:
            return self._one(
                "These look right to me, so I recommend them.", "Good enough.", "I take what I have found."
            )
        said = []
        for number, (item, one, others) in enumerate(zip(wish.items, basket, rivals, strict=True), start=1):
            if len(wish.items) > 1:
                said.append(f"Item {number} ({' '.join(item.words[:3])}):")
            if one is None:
                said.append("nothing in the results fits this item.")
                continue
            said.append(self._praise(item, one, misquotes=misquotes))
            said.extend(self._against(conversation, wish, item, one, other) for other in others[:1])
            said.extend(self._check(item, one))
        chosen = [one for one in basket if one is not None]
        if wish.one_shop and len(chosen) > 1:
            said.append(self._shop(chosen))
        if wish.voucher is not None and chosen:
            said.append(self._sums(wish, chosen))
        ids = ", ".join(p.product_id for p in chosen)
        said.append(self._one(f"I recommend {ids}.", f"So the answer is {ids}.", f"My choice: {ids}."))
        return " ".join(said)

    def ending(self) -> str:
        """After the recommendation."""
        return self._one(
            "The recommendation is given, so I end here.",
            "Nothing is left to check; I end the conversation.",
            "The answer stands, and I am done.",
        )

    def giving_up(self) -> str:
        """When nothing was found."""
        return self._one(
            "None of the searches found a product that could fulfil the request, so I end without an answer.",
            "No search showed anything that fits, so there is nothing to recommend.",
        )

    def _one(self, *forms: str) -> str:
        return self.rng.choice(forms)

    def _requirements(self, wish: Wish) -> str:
        parts = []
        for item in wish.items:
            demands = [" ".join(item.words)]
            if item.price_filter():
                demands.append(price_range(item))
            demands.extend(_SERVICE_WORDS[name] for name in item.services)
            parts.append("; ".join(demands))
        wanted = " | ".join(parts)
        said = self._one(f"Wanted: {wanted}.", f"The request asks for {wanted}.", f"I need to find {wanted}.")
        if wish.one_shop and len(wish.items) > 1:
            said += self._one(" All must come from one shop.", " One shop has to sell them all.")
        if wish.voucher is not None:
            budget = money(wish.voucher.budget)
            said += self._one(
                f" After the voucher, at most {budget} PHP may be to pay.",
                f" The budget is {budget} PHP after the voucher.",
            )
        return said

    def _last_result(self, wish: Wish, conversation: Conversation) -> str:
        last = conversation.calls[-1]
        if not last.records:
            return self._one("The last search shows no product.", "Nothing came of the last search.")
        first = conversation.products[str(last.records[0]["product_id"])]
        if last.name != "find_product":
            return self._shortcoming(wish, first)
        price = f" at {money(first.price)} PHP" if first.price is not None else ""
        title = short(first.title)
        return self._one(
            f"On top of {len(last.records)} results stands {first.product_id} ({title}){price}.",
            f"Of {len(last.records)} products shown, the first is {first.product_id} ({title}){price}.",
            f"First of these results: {first.product_id}, {title}{price}.",
        )

    def _shortcoming(self, wish: Wish, one: KnownProduct) -> str:
        item = max(wish.items, key=one.coverage)
        if unshown := lacking(item, one):
            return self._one(
                f"{one.product_id} does not show {unshown}.",
                f"In what is said of {one.product_id} I miss {unshown}.",
                f"{one.product_id} is without {unshown}.",
            )
        if missing := phrases(item, one.missing(item)):
            return f"{one.product_id} does not have {missing} among its attributes and options."
        return self._one(
            f"{one.product_id} matches what is asked.", f"{one.product_id} bears all that is asked."
        )

    def _praise(self, item: Item, one: KnownProduct, *, misquotes: bool) -> str:
        price = one.price
        if price is not None and misquotes:
            price = round(price * 0.8 + 1, 2)
        cost = f" costs {money(price)} PHP and" if price is not None else ""
        values = ", ".join(one.bearing(item)[:_NAMED_VALUES])
        if not one.viewed:
            said = f"{one.product_id}{cost} is judged by its title alone, {short(one.title)}"
        elif values:
            said = self._one(
                f"{one.product_id}{cost} has {values}",
                f"{one.product_id}{cost} lists {values} in its details",
                f"{one.product_id}{cost} comes with {values}",
            )
        else:
            said = f"{one.product_id}{cost} shows none of the wanted values in its details"
        if unshown := lacking(item, one):
            said += self._one(f"; it does not show {unshown}", f"; {unshown} I do not find there")
        return said + "."

    def _against(
        self, conversation: Conversation, wish: Wish, item: Item, one: KnownProduct, other: KnownProduct
    ) -> str:
        cost = f" at {money(other.price)} PHP" if other.price is not None else ""
        named = f"{other.product_id}{cost}"
        if not other.fits(item):
            return self._one(
                f"{named} is outside what is asked by price or service, so I prefer {one.product_id}.",
                f"Unlike it, {named} does not fit price or services.",
            )
        lower = _ranked_above(conversation, one, other)
        if not other.viewed:
            title = short(other.title)
            if wish.one_shop and other.shop_id != one.shop_id:
                return self._one(
                    f"{named} ({title}) is of another shop, {other.shop_id}, where the other items fit less.",
                    f"{named} ({title}) belongs to shop {other.shop_id}, but one shop must have every item.",
                )
            if lower:
                return self._one(
                    f"I prefer it to {named} ({title}), which the search ranks lower.",
                    f"{named} ({title}) ranks lower, so {one.product_id} is the better bet.",
                )
            return f"I prefer it to {named} ({title}), whose details I have not read."
        mine, theirs = one.matched(item), other.matched(item)
        if unshown := phrases(item, [word for word in mine if word not in theirs]):
            return self._one(
                f"Compared with it, {named} lacks {unshown}, so I prefer {one.product_id}.",
                f"{named}, however, does not show {unshown}.",
                f"{one.product_id} is better than {named}, where I miss {unshown}.",
            )
        if lower:
            return self._one(
                f"Compared with it, {named} is no better and ranked lower, so I keep {one.product_id}.",
                f"{named} matches as much, but the search ranks {one.product_id} higher.",
            )
        return f"Compared with it, {named} matches no more, so I keep {one.product_id}."

    def _check(self, item: Item, one: KnownProduct) -> list[str]:
        checks = []
        if item.price_filter() and one.price is not None:
            verdict = "lies within" if item.fits_price(one.price) else "does not lie within"
            checks.append(f"{money(one.price)} PHP {verdict} {price_range(item)}")
        for name in item.services:
            has = "it lists" if name in one.services else "it does not list"
            checks.append(f"{has} {_SERVICE_WORDS[name]}")
        if not checks:
            wanted = " ".join(item.words)
            return [
                self._one(
                    f"Asked for: {wanted}.", f"What was asked for is {wanted}.", f"The wish was {wanted}."
                )
            ]
        return [self._one("Check:", "Checked again:", "The constraints:") + f" {', '.join(checks)}."]

    def _shop(self, chosen: Sequence[KnownProduct]) -> str:
        shops = list(dict.fromkeys(p.shop_id for p in chosen))
        if len(shops) == 1:
            return self._one(
                f"All {len(chosen)} products are sold by shop {shops[0]}, as asked.",
                f"They all come from shop {shops[0]}.",
                f"Shop {shops[0]} sells all {len(chosen)} of them.",
            )
        return f"No single shop has them all; they come from the shops {', '.join(shops)}."

    def _sums(self, wish: Wish, chosen: Sequence[KnownProduct]) -> str:
        voucher = wish.voucher
        assert voucher is not None
        total = sum(p.price or 0.0 for p in chosen)
        off = voucher.discount(total, one_shop=len({p.shop_id for p in chosen}) == 1)
        addition = " + ".join(money(p.price) for p in chosen)
        said = f"{addition} = {money(total)} PHP" if len(chosen) > 1 else f"{money(total)} PHP"
        said = self._one(f"The total is {said}. ", f"Sum: {said}. ", f"In all that is {said}. ")
        if off:
            said += f"The voucher takes off {money(off)}, so {money(total - off)} PHP is to pay, "
        else:
            said += f"The voucher does not apply, so {money(total)} PHP is to pay, "
        within = "within" if total - off <= voucher.budget else "above"
        return said + f"which is {within} the budget of {money(voucher.budget)} PHP."


def reason(item: Item, one: KnownProduct) -> str:
    """One sentence on why a product was picked."""
    price = f" at {money(one.price)} PHP" if one.price is not None else ""
    return f"it matches {', '.join(one.matched(item)) or 'best'}{price}."


def _ranked_above(conversation: Conversation, one: KnownProduct, other: KnownProduct) -> bool:
    """Whether a search that showed both products showed `one` first."""
    for call in conversation.named("find_product"):
        ids = [str(record["product_id"]) for record in call.records]
        if one.product_id in ids and other.product_id in ids:
            return ids.index(one.product_id) < ids.index(other.product_id)
    return False
