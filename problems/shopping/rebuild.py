"""A small catalog around released tasks, so that they can be played without the original's 1.4 GB file.

The tasks say of their target products the title and the constraints that were sampled, nothing else. Here
each target gets the rest: a price that fits its ranges and its vouchers' arithmetic, a shop that its whole
basket shares, more SKUs, and near-twins that look alike and lack something that was asked for. Where a
product stands in several tasks it fulfils all of them; a task that contradicts an earlier one is refused.

Pure: the same tasks and seed give the same products in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from random import Random

from problems.importers import Refusal, ReleasedTasks, Task
from problems.shopping.answer import Target
from problems.shopping.product import SERVICES, Product
from problems.shopping.vouchers import Voucher, money

REBUILD = "rebuild-1"
"""Changes with anything that changes what a seed gives."""

_TWINS = 2
"""Near-twins of each target."""
_LEAST_CENTS = 100
"""No product costs less than this."""
_NO_LIMIT = 10**12


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The catalog's products, the tasks that can be played on it, and those that cannot, with the reason."""

    products: tuple[Product, ...]
    playable: tuple[Task, ...]
    refused: tuple[Refusal, ...]


@dataclass(slots=True)
class _Draft:
    """What is known so far of a target. Prices in cents, both bounds included."""

    product_id: str
    title: str
    low: int = _LEAST_CENTS
    high: int = _NO_LIMIT
    shop: str | None = None
    services: set[str] = field(default_factory=set)
    options: list[dict[str, str]] = field(default_factory=list)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    wanted: list[Target] = field(default_factory=list)
    record: Product | None = None
    cents: int | None = None


class _Contradiction(Exception):
    """A task contradicts what earlier ones fixed."""


def rebuild(tasks: ReleasedTasks, *, seed: int) -> Rebuilt:
    """Products that every playable task's own answer passes on, with distractors.

    Web tasks bring their own records, and are not among the playable ones here.
    """
    rng = Random(f"{REBUILD}:{seed}")
    drafts = {record.product_id: _of_record(record) for record in tasks.records}
    shops = _Shops(drafts)
    refused: list[Refusal] = []
    agreed: list[Task] = []
    for task in tasks.of("product", "shop", "voucher"):
        try:
            _agree(task, drafts, shops)
        except _Contradiction as contradiction:
            refused.append(Refusal(task.name, str(contradiction)))
        else:
            agreed.append(task)
    playable: list[Task] = []
    for task in sorted(agreed, key=lambda task: task.answer.voucher is None):
        try:
            if task.answer.voucher is not None:
                _price_basket(rng, [drafts[t.product_id] for t in task.answer.reward], task.answer.voucher)
        except _Contradiction as contradiction:
            refused.append(Refusal(task.name, str(contradiction)))
        else:
            playable.append(task)
    order = {task.name: i for i, task in enumerate(agreed)}
    playable.sort(key=lambda task: order[task.name])
    products = _finish(rng, drafts, shops)
    return Rebuilt(tuple(products), tuple(playable), tuple(refused))


def _of_record(record: Product) -> _Draft:
    cents = _cents(record.price)
    return _Draft(
        record.product_id,
        record.title,
        low=cents,
        high=cents,
        shop=record.shop_id,
        services=set(record.service),
        options=[dict(option) for option in record.sku_options.values()],
        attributes={key: list(values) for key, values in record.attributes.items()},
        record=record,
        cents=cents,
    )


class _Shops:
    """Which products share a shop: union-find over product ids, where a set may have a fixed shop."""

    def __init__(self, drafts: dict[str, _Draft]) -> None:
        self._parent: dict[str, str] = {}
        self._fixed = {name: draft.shop for name, draft in drafts.items() if draft.shop is not None}

    def root(self, name: str) -> str:
        self._parent.setdefault(name, name)
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def fixed(self, name: str) -> str | None:
        return self._fixed.get(self.root(name))

    def join(self, names: Sequence[str]) -> None:
        """Put all into one shop. Raises _Contradiction when they have different fixed ones."""
        fixed = {shop for name in names if (shop := self.fixed(name)) is not None}
        if len(fixed) > 1:
            raise _Contradiction(f"its products must share a shop, and stand in {', '.join(sorted(fixed))}")
        first = self.root(names[0])
        for name in names[1:]:
            self._parent[self.root(name)] = first
        if fixed:
            self._fixed[first] = fixed.pop()


def _agree(task: Task, drafts: dict[str, _Draft], shops: _Shops) -> None:
    """Take the task's wishes into the drafts, all or none. Raises _Contradiction."""
    targets = task.answer.reward
    bounds: dict[str, tuple[int, int]] = {}
    for target in targets:
        draft = drafts.get(target.product_id)
        if draft is not None and target.title and draft.title != target.title[0]:
            raise _Contradiction(f"product {target.product_id} has another title in an earlier task")
        low, high = bounds.get(
            target.product_id, (draft.low, draft.high) if draft else (_LEAST_CENTS, _NO_LIMIT)
        )
        for price in target.price:
            low = max(low, _cents(price.low) if price.low is not None else low)
            high = min(high, _cents(price.high) if price.high is not None else high)
        if low > high:
            raise _Contradiction(f"no price of product {target.product_id} fits this and earlier tasks")
        bounds[target.product_id] = (low, high)
    voucher = task.answer.voucher
    if len(targets) > 1 and (voucher is None or voucher.voucher_type == "shop"):
        shops.join([target.product_id for target in targets])
    for target in targets:
        draft = drafts.setdefault(
            target.product_id, _Draft(target.product_id, target.title[0] if target.title else "")
        )
        draft.low, draft.high = bounds[target.product_id]
        draft.services |= set(target.service)
        draft.options += [dict(option) for option in target.sku_options if option not in draft.options]
        for entry in target.attributes:
            for key, values in entry.items():
                listed = draft.attributes.setdefault(key, [])
                listed += [value for value in values if value not in listed]
        draft.wanted.append(target)


def _price_basket(rng: Random, drafts: Sequence[_Draft], voucher: Voucher) -> None:
    """Price the basket so that the voucher brings it to what the task says, or at least within its budget."""
    known = sum(draft.cents for draft in drafts if draft.cents is not None)
    free = [draft for draft in drafts if draft.cents is None]
    before = voucher.price_before()
    meant = _decimal_cents(before if before is not None else money(voucher.budget))
    least = known + sum(draft.low for draft in free)
    most = known + sum(draft.high for draft in free)
    total = min(max(meant, least), most)
    if not voucher.affordable(Decimal(total) / 100, 1):
        raise _Contradiction("no prices that fit the other tasks bring its basket within the budget")
    left = total - least
    weights = [rng.uniform(0.4, 1.6) for _ in free]
    for i, draft in enumerate(free):
        last = i == len(free) - 1
        share = left if last else int(left * weights[i] / sum(weights[i:]))
        room_after = sum(later.high - later.low for later in free[i + 1 :])
        share = min(max(share, left - room_after), draft.high - draft.low)
        draft.cents = draft.low + share
        left -= share


def _finish(rng: Random, drafts: dict[str, _Draft], shops: _Shops) -> list[Product]:
    """Targets with all that was left open, and their near-twins."""
    vocabulary = _vocabulary(drafts.values())
    titles = [draft.title for draft in drafts.values()]
    shop_ids = [f"{number}" for number in rng.sample(range(100_000, 9_999_999), len(drafts))]
    taken = set(drafts)
    shop_of: dict[str, str] = {}
    products = []
    for draft, spare in zip(drafts.values(), shop_ids, strict=True):
        root = shops.root(draft.product_id)
        shop = shops.fixed(draft.product_id) or shop_of.setdefault(root, spare)
        target = _target(rng, draft, shop, vocabulary)
        products.append(target)
        for _ in range(_TWINS):
            twin_id = str(rng.randrange(1_000_000_000, 6_000_000_000))
            while twin_id in taken:
                twin_id = str(rng.randrange(1_000_000_000, 6_000_000_000))
            taken.add(twin_id)
            seller = rng.choice(shop_ids) if rng.random() < 0.6 else shop
            products.append(_twin(rng, target, draft, twin_id, seller, vocabulary, titles))
    rng.shuffle(products)
    return products


def _target(rng: Random, draft: _Draft, shop: str, vocabulary: dict[str, list[str]]) -> Product:
    attributes = {key: tuple(values) for key, values in draft.attributes.items()}
    if draft.record is not None:
        known = draft.record.model_dump()
    else:
        brand = attributes.get("brand", ("",))[0]
        known = {"brand": brand.title(), "sold_count": int(math.exp(rng.uniform(0, 8))) - 1}
        details = "; ".join(f"{key.replace('_', ' ')}: {values[0]}" for key, values in attributes.items())
        known |= {"short_description": details, "description": draft.title}
        draft.services |= {name for name in SERVICES if rng.random() < 0.2}
    return Product.model_validate(
        known
        | {
            "product_id": draft.product_id,
            "shop_id": shop,
            "title": draft.title,
            "price": _price(rng, draft) / 100,
            "service": [name for name in SERVICES if name in draft.services],
            "sku_options": _numbered(_more_options(rng, draft.options, vocabulary)),
            "attributes": attributes,
        }
    )


def _price(rng: Random, draft: _Draft) -> int:
    """The draft's price in cents: as fixed, or drawn within its bounds."""
    if draft.cents is not None:
        return draft.cents
    if draft.high < _NO_LIMIT:
        return rng.randint(draft.low, draft.high)
    if draft.low > _LEAST_CENTS:
        return int(draft.low * rng.uniform(1.05, 2.2))
    return int(math.exp(rng.uniform(math.log(3_000), math.log(150_000))))


def _more_options(
    rng: Random, options: Sequence[dict[str, str]], vocabulary: dict[str, list[str]]
) -> list[dict[str, str]]:
    """The options, and some in which one value is another."""
    listed = [dict(option) for option in options]
    for option in options[:3]:
        for _ in range(rng.randint(1, 3)):
            key = rng.choice(sorted(option))
            other = option | {key: rng.choice(vocabulary[key])}
            if other not in listed and len(listed) < 9:
                listed.append(other)
    rng.shuffle(listed)
    return listed


def _twin(
    rng: Random,
    target: Product,
    draft: _Draft,
    product_id: str,
    shop: str,
    vocabulary: dict[str, list[str]],
    titles: Sequence[str],
) -> Product:
    """A product like `target` that lacks one thing that a task asks for; at the least, its title."""
    changed = target.model_dump() | {
        "product_id": product_id,
        "shop_id": shop,
        "sold_count": int(math.exp(rng.uniform(0, 8))) - 1,
        "title": _like(rng, target.title, titles, strong=False),
        "price": max(_LEAST_CENTS, int(target.price * 100 * rng.uniform(0.9, 1.15))) / 100,
    }
    sku = sorted({key for wanted in draft.wanted for option in wanted.sku_options for key in option})
    keys = sorted({key for wanted in draft.wanted for entry in wanted.attributes for key in entry})
    services = sorted({service for wanted in draft.wanted for service in wanted.service})
    lacks = [kind for kind, has in (("sku", sku), ("attribute", keys), ("service", services)) if has]
    if draft.low > _LEAST_CENTS and draft.cents is None:
        lacks.append("price")
    lack = rng.choice(lacks) if lacks else "title"
    if lack == "sku":
        key = rng.choice(sku)
        gone = {option[key] for option in draft.options if key in option}
        others = [value for value in vocabulary[key] if value not in gone] or ["other"]
        changed["sku_options"] = {
            number: option | ({key: rng.choice(others)} if key in option else {})
            for number, option in target.sku_options.items()
        }
    elif lack == "attribute":
        key = rng.choice(keys)
        others = [value for value in vocabulary[key] if value not in draft.attributes[key]] or ["other"]
        changed["attributes"] = dict(target.attributes) | {key: (rng.choice(others),)}
    elif lack == "service":
        gone_service = rng.choice(services)
        changed["service"] = [name for name in target.service if name != gone_service]
    elif lack == "price":
        changed["price"] = max(_LEAST_CENTS, int(draft.low * rng.uniform(0.4, 0.9))) / 100
    else:
        changed["title"] = _like(rng, target.title, titles, strong=True)
    return Product.model_validate(changed)


def _like(rng: Random, title: str, titles: Sequence[str], *, strong: bool) -> str:
    """`title` with a word or, when `strong`, half its words from another title."""
    words = title.split()
    others = rng.choice(titles).split() or ["New"]
    count = max(1, len(words) // 2) if strong else 1
    for at in rng.sample(range(len(words)), min(count, len(words))):
        words[at] = rng.choice(others)
    return " ".join(words)


def _vocabulary(drafts: Iterable[_Draft]) -> dict[str, list[str]]:
    """Every value that some target has for a key, SKU and attributes alike, in order."""
    values: dict[str, dict[str, None]] = {}
    for draft in drafts:
        pairs = [pair for option in draft.options for pair in option.items()]
        pairs += [(key, value) for key, listed in draft.attributes.items() for value in listed]
        for key, value in pairs:
            values.setdefault(key, {})[value] = None
    return {key: list(listed) for key, listed in values.items()}


def _numbered(options: Sequence[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {str(number): option for number, option in enumerate(options, start=1)}


def _cents(price: float) -> int:
    return _decimal_cents(money(price))


def _decimal_cents(price: Decimal) -> int:
    return int((price * 100).quantize(Decimal(1), ROUND_HALF_UP))
