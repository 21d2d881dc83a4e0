"""The scripted shopper's reasoning, in words: its figures come from results and from the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena.scripted_shopper.conversation import Conversation, KnownProduct
from arena.scripted_shopper.wish import Item, Wish

_SERVICE_WORDS = {
    "official": "official (LazMall)",
    "freeShipping": "free shipping",
    "COD": "cash on delivery (COD)",
    "flashsale": "flash sale (LazFlash)",
}
_NAMED_VALUES = 4


def searching(
    wish: Wish, item: Item, call: Mapping[str, Any], conversation: Conversation, *, terse: bool
) -> str:
    """Why this search comes next."""
    if terse:
        return "I search for the next thing."
    said = []
    if not conversation.calls:
        said.append(_requirements(wish))
    else:
        said.append(_last_search(conversation))
    if "shop_id" in call:
        said.append(f"I check whether shop {call['shop_id']} also has {item.text!r}.")
    elif call.get("page", 1) > 1:
        said.append("None of these titles covers everything that is asked, so I look at the next page.")
    else:
        said.append(f"I search for {item.text!r} with the words {call['q']!r}.")
    filters = [f"{name} {call[name]}" for name in ("price", "service") if name in call]
    if filters:
        said.append(f"I set the filters {' and '.join(filters)}, so that only fitting products are shown.")
    elif (item.price_filter() or item.services) and "shop_id" not in call:
        said.append("With the filters nothing was found, so I search without them and check by hand.")
    return " ".join(said)


def viewing(wish: Wish, products: Sequence[KnownProduct], *, terse: bool) -> str:
    """Why these products are viewed."""
    if terse:
        return "I look at some of them."
    named = [f"{p.product_id} ({_short(p.title)}, {_money(p.price)} PHP)" for p in products[:3]]
    wanted = ", ".join(" ".join(item.words) for item in wish.items)
    return (
        f"The closest results are {'; '.join(named)}. Titles alone do not show whether "
        f"they match all of: {wanted}. I view the attributes and options of {len(products)} candidates."
    )


def deciding(
    wish: Wish,
    basket: Sequence[KnownProduct | None],
    rivals: Sequence[Sequence[KnownProduct]],
    *,
    misquotes: bool,
    terse: bool,
) -> str:
    """The comparison, the check of the constraints, and the sums, for what is recommended."""
    if terse:
        return "These look right to me, so I recommend them."
    said = []
    for number, (item, one, others) in enumerate(zip(wish.items, basket, rivals, strict=True), start=1):
        if len(wish.items) > 1:
            said.append(f"Item {number} ({item.text}):")
        if one is None:
            said.append("nothing in the results fits this item.")
            continue
        said.append(_praise(item, one, misquotes=misquotes))
        said.extend(_against(item, one, other) for other in others[:1])
        said.append(_check(item, one))
    chosen = [one for one in basket if one is not None]
    if wish.one_shop and len(chosen) > 1:
        said.append(_shop(chosen))
    if wish.voucher is not None and chosen:
        said.append(_sums(wish, chosen))
    said.append(f"I recommend {', '.join(p.product_id for p in chosen)}.")
    return " ".join(said)


def reason(item: Item, one: KnownProduct) -> str:
    """One sentence on why a product was picked."""
    price = f" at {_money(one.price)} PHP" if one.price is not None else ""
    return f"it matches {', '.join(one.matched(item)) or 'best'}{price}."


def ending() -> str:
    """After the recommendation."""
    return "The recommendation is given and nothing is left to check, so I end the conversation."


def giving_up() -> str:
    """When nothing was found."""
    return "None of the searches found a product that could fulfil the request, so I end without an answer."


def _requirements(wish: Wish) -> str:
    parts = []
    for item in wish.items:
        demands = [f"words {', '.join(item.words)}"]
        if item.price_filter():
            demands.append(_range(item))
        demands.extend(_SERVICE_WORDS[name] for name in item.services)
        parts.append("; ".join(demands))
    said = f"The request asks for {len(wish.items)} item(s): " + " | ".join(parts) + "."
    if wish.one_shop and len(wish.items) > 1:
        said += " All must come from one shop."
    if wish.voucher is not None:
        said += f" After the voucher, at most the budget of {_money(wish.voucher.budget)} PHP may be to pay."
    return said


def _last_search(conversation: Conversation) -> str:
    records = conversation.calls[-1].records
    if not records:
        return "The last search shows no product."
    first = conversation.products[str(records[0]["product_id"])]
    price = f" at {_money(first.price)} PHP" if first.price is not None else ""
    return (
        f"The last search shows {len(records)} products, the first one is {first.product_id} "
        f"({_short(first.title)}){price}."
    )


def _praise(item: Item, one: KnownProduct, *, misquotes: bool) -> str:
    price = one.price
    if price is not None and misquotes:
        price = round(price * 0.8 + 1, 2)
    cost = f" costs {_money(price)} PHP and" if price is not None else ""
    matched = one.matched(item)
    said = f"{one.product_id}{cost} covers {len(matched)} of the {len(item.words)} wanted words"
    if values := one.bearing(item)[:_NAMED_VALUES]:
        said += f", with {', '.join(values)} in its details"
    missing = [word for word in item.words if word not in matched]
    return said + (f"; it does not show {', '.join(missing)}." if missing else ".")


def _against(item: Item, one: KnownProduct, other: KnownProduct) -> str:
    mine, theirs = one.matched(item), other.matched(item)
    cost = f" costs {_money(other.price)} PHP and" if other.price is not None else ""
    lacking = [word for word in mine if word not in theirs]
    said = f"Compared with it, {other.product_id}{cost} covers {len(theirs)}"
    if not other.fits(item):
        return said + f" but is outside what is asked by price or service, so I prefer {one.product_id}."
    if lacking:
        return said + f" but lacks {', '.join(lacking)}, so I prefer {one.product_id}."
    return (
        said
        + f", no better than {one.product_id}, which the search ranks higher, so I keep {one.product_id}."
    )


def _check(item: Item, one: KnownProduct) -> str:
    checks = []
    if item.price_filter() and one.price is not None:
        verdict = "lies within" if item.fits_price(one.price) else "does not lie within"
        checks.append(f"its price of {_money(one.price)} PHP {verdict} {_range(item)}")
    for name in item.services:
        has = "lists" if name in one.services else "does not list"
        checks.append(f"it {has} {_SERVICE_WORDS[name]}")
    if not checks:
        return f"{one.product_id} was asked for as: {' '.join(item.words)}."
    return f"Check of {one.product_id}: {', '.join(checks)}."


def _shop(chosen: Sequence[KnownProduct]) -> str:
    shops = list(dict.fromkeys(p.shop_id for p in chosen))
    if len(shops) == 1:
        return f"All {len(chosen)} products are sold by shop {shops[0]}, as asked."
    return f"No single shop has them all; they come from the shops {', '.join(shops)}."


def _sums(wish: Wish, chosen: Sequence[KnownProduct]) -> str:
    voucher = wish.voucher
    assert voucher is not None
    total = sum(p.price or 0.0 for p in chosen)
    one_shop = len({p.shop_id for p in chosen}) == 1
    off = voucher.discount(total, one_shop=one_shop)
    addition = " + ".join(_money(p.price) for p in chosen)
    said = f"The total is {addition} = {_money(total)} PHP. "
    if off:
        said += f"The voucher applies and takes off {_money(off)}, so {_money(total - off)} PHP is to pay, "
    else:
        said += f"The voucher does not apply, so {_money(total)} PHP is to pay, "
    within = "within" if total - off <= voucher.budget else "above"
    return said + f"which is {within} the budget of {_money(voucher.budget)} PHP."


def _range(item: Item) -> str:
    if item.low is not None and item.high is not None:
        return f"the price range {_money(item.low)} to {_money(item.high)} PHP"
    if item.low is not None:
        return f"a price above {_money(item.low)} PHP"
    return f"a price below {_money(item.high)} PHP"


def _money(amount: float | None) -> str:
    return "?" if amount is None else f"{amount:.2f}".rstrip("0").rstrip(".")


def _short(title: str) -> str:
    words = title.split()
    return " ".join(words[:8]) + ("..." if len(words) > 8 else "")
