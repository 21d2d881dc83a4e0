"""Problems from a catalog, without end and without people: targets, constraints, words, and a proof.

Every problem is certified before it leaves: its targets have all that is asked; no product of the same kind
has all of it and yet a different title, so that whoever checks carefully finds the one that was meant; each
target is within the reach of a plain search; the true basket is affordable; no title or id stands in the
query. Deterministic for a seed.

Sizes and voucher distributions are ShoppingBench's (arXiv 2508.04266, `run_synthesize.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from problems.leak_clusters import query_key
from problems.problem import AnsweredProblem, Problem, content_id
from problems.shopping import verbaliser
from problems.shopping.catalog import Catalog, Product
from problems.shopping.scoring import TITLE_THRESHOLD, Target
from problems.shopping.similarity import LexicalSimilarity, TitleSimilarity
from problems.shopping.vouchers import Voucher, money, total

SYNTHESIS = "synthesis-1"
"""Changes with anything that changes what a seed gives."""

_TRIES = 40
"""Attempts a problem, before the catalog is said to be too small for it."""
_REUSE = 0.05
"""Share of problems that may use targets which already stand in another: variants do occur."""
_MIN_TOTAL = 100
"""PHP; a voucher makes no sense on less."""

Raw = dict[str, Any]


class SynthesisError(Exception):
    """The catalog does not give as many certified problems as were asked for."""


@dataclass(frozen=True, slots=True)
class Certified:
    """A problem with its proof: for each target, how many other products would do as well."""

    problem: AnsweredProblem
    equals: tuple[int, ...]


def synthesise(
    catalog: Catalog,
    counts: Mapping[str, int],
    *,
    seed: int,
    similarity: TitleSimilarity | None = None,
) -> list[Certified]:
    """As many certified problems of each category (product, shop, voucher) as `counts` asks for.

    Raises SynthesisError when the catalog is too small for that, ValueError on another category.
    """
    maker = _Maker(catalog, similarity or LexicalSimilarity())
    made: list[Certified] = []
    queries: set[str] = set()
    for category, count in counts.items():
        make = maker.maker_of(category)
        rng = Random(f"{SYNTHESIS}:{seed}:{category}")
        tries = count * _TRIES
        wanted = len(made) + count
        while len(made) < wanted and tries > 0:
            tries -= 1
            problem = make(rng)
            if problem is not None and problem.problem.problem.query not in queries:
                queries.add(problem.problem.problem.query)
                made.append(problem)
        if len(made) < wanted:
            raise SynthesisError(
                f"only {count - (wanted - len(made))} of {count} {category} problems could be certified on "
                f"{catalog.size} products: ask for fewer, or generate a larger catalog"
            )
    return made


def noun_of(product: Product) -> str:
    """What a shopper calls this kind of product: the last part of its category, in lower case."""
    return product.category.rsplit(">", 1)[-1].strip().lower()


@dataclass(slots=True)
class _Maker:
    catalog: Catalog
    similarity: TitleSimilarity
    by_kind: dict[str, list[Product]] = field(default_factory=dict)
    by_shop: dict[str, list[Product]] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)
    shops: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    made: int = 0
    repeats: int = 0

    def __post_init__(self) -> None:
        for row, product in enumerate(self.catalog):
            self.rows[product.product_id] = row
            if noun_of(product):
                self.products.append(product)
                self.by_kind.setdefault(product.category, []).append(product)
                self.by_shop.setdefault(product.shop_id, []).append(product)
        self.shops = [shop for shop, listed in self.by_shop.items() if len(listed) > 1]
        if not self.products:
            raise SynthesisError("no product of this catalog has a category: there is nothing to ask for")

    def maker_of(self, category: str) -> Callable[[Random], Certified | None]:
        makers = {"product": self.product, "shop": self.shop, "voucher": self.voucher}
        if category not in makers:
            raise ValueError(f"there is no synthesis for category {category!r}: it is one of {list(makers)}")
        return makers[category]

    def product(self, rng: Random) -> Certified | None:
        picked = self._pick(rng, self.products, 1)
        rewards = [self._reward(rng, p, self.by_kind[p.category], priced=True) for p in picked]
        return self._certified("product", picked, rewards, partial(verbaliser.product_query, rng))

    def shop(self, rng: Random) -> Certified | None:
        picked = self._pick_in_shop(rng, rng.choices((2, 3, 4), weights=(89, 86, 75))[0])
        if not picked:
            return None
        rewards = []
        for product in picked:
            here = [p for p in self.by_shop[product.shop_id] if p.category == product.category]
            rewards.append(self._reward(rng, product, here, priced=True))
        certified = self._certified("shop", picked, rewards, partial(verbaliser.shop_query, rng))
        return certified if certified and self._only_shop(picked, certified) else None

    def voucher(self, rng: Random) -> Certified | None:
        size = rng.choices((1, 2, 3, 4), weights=(22, 70, 80, 78))[0]
        kind = rng.choices(("platform", "shop"), weights=(129, 121))[0]
        if kind == "platform" or size == 1:
            picked = self._pick(rng, self.products, size)
        else:
            picked = self._pick_in_shop(rng, size)
        price = total(p.price for p in picked)
        if not picked or price < _MIN_TOTAL:
            return None
        voucher = draw_voucher(rng, kind, float(price))
        if not voucher.affordable(price, len({p.shop_id for p in picked})):
            return None
        rewards = [self._reward(rng, p, self.by_kind[p.category], priced=False) for p in picked]
        query = partial(verbaliser.voucher_query, rng, voucher=voucher)
        return self._certified("voucher", picked, rewards, query, voucher)

    def _pick(self, rng: Random, among: Sequence[Product], count: int) -> list[Product]:
        """`count` products of different kinds, unused with few exceptions; none when that cannot be had."""
        picked: list[Product] = []
        used = set() if self.repeats < _REUSE * self.made else self.used
        for _ in range(count * 12):
            product = rng.choice(among)
            if product.product_id not in used and product.category not in {p.category for p in picked}:
                picked.append(product)
            if len(picked) == count:
                return picked
        return []

    def _pick_in_shop(self, rng: Random, count: int) -> list[Product]:
        return self._pick(rng, self.by_shop[rng.choice(self.shops)], count) if self.shops else []

    def _reward(self, rng: Random, product: Product, among: Sequence[Product], *, priced: bool) -> Raw | None:
        """Constraints that `product` fulfils and no rival among others of its kind; None if there are none.

        Rivals are products whose title is another one. Mostly, near-twins must be told apart as well.
        """
        others = [p for p in among if p.product_id != product.product_id]
        rivals = [p for p in others if not self._alike(p, product)]
        twins = [p for p in others if self._alike(p, product)] if rng.random() < 0.75 else []
        possible = list(_constraints(rng, product, priced=priced))
        rng.shuffle(possible)
        reward: Raw = {"product_id": product.product_id, "title": [product.title]}
        for i, constraint in enumerate(possible):
            wider = _with(reward, constraint)
            left = [p for p in rivals if _fulfils(p, wider)]
            left_twins = [p for p in twins if _fulfils(p, wider)]
            if i < 2 or len(left) < len(rivals) or len(left_twins) < len(twins):
                reward, rivals, twins = wider, left, left_twins
            if i >= 1 and not rivals and not twins:
                break
        return None if rivals else reward

    def _alike(self, one: Product, other: Product) -> bool:
        return self.similarity.similarity(one.title, other.title) >= TITLE_THRESHOLD

    def _certified(
        self,
        category: str,
        picked: Sequence[Product],
        rewards: Sequence[Raw | None],
        query_of: Callable[[list[tuple[str, Target]]], str],
        voucher: Voucher | None = None,
    ) -> Certified | None:
        if not picked or any(reward is None for reward in rewards):
            return None
        raw = [reward for reward in rewards if reward is not None]
        targets = [Target.model_validate(reward) for reward in raw]
        wanted = [(noun_of(p), target) for p, target in zip(picked, targets, strict=True)]
        query = query_of(wanted)
        if _gives_away(query, picked) or not all(self._reachable(noun, t) for noun, t in wanted):
            return None
        answer: Raw = {"reward": raw[0] if category == "product" else raw}
        if voucher is not None:
            answer["voucher"] = voucher.model_dump(mode="json")
        self.made += 1
        self.repeats += any(p.product_id in self.used for p in picked)
        self.used |= {p.product_id for p in picked}
        equals = tuple(
            sum(
                p.product_id != product.product_id and _fulfils(p, reward) and self._alike(p, product)
                for p in self.by_kind[product.category]
            )
            for product, reward in zip(picked, raw, strict=True)
        )
        target_ids = [p.product_id for p in picked]
        problem = answered(category, query, answer, target_ids, scope=self.catalog.catalog_id)
        return Certified(problem, equals)

    def _reachable(self, noun: str, target: Target) -> bool:
        """Whether a plain search for the words of the constraints shows the target."""
        words = " ".join([noun, *(value for _, value in sorted(target.pairs()))])
        return self.rows[target.product_id] in self.catalog.window(words)

    def _only_shop(self, picked: Sequence[Product], certified: Certified) -> bool:
        """Whether no other shop sells products that fulfil every one of the targets' constraints."""
        shops: set[str] | None = None
        for product, reward in zip(picked, certified.problem.answer["reward"], strict=True):
            selling = {p.shop_id for p in self.by_kind[product.category] if _fulfils(p, reward)}
            shops = selling if shops is None else shops & selling
        return shops == {picked[0].shop_id}


def answered(
    category: str, query: str, answer: Raw, target_ids: Sequence[str], *, scope: str = ""
) -> AnsweredProblem:
    """A shopping problem with its answer. Its id is made of the query, and of `scope`.

    `scope` keeps the same question about another catalog apart: its id would be the same otherwise.
    """
    name = content_id(["shopping", scope, category, query])[:12]
    keys = {f"product:{product_id}" for product_id in target_ids} | {query_key(query)}
    return AnsweredProblem(
        problem=Problem(
            problem_id=f"{category}-{name}", environment="shopping", category=category, query=query
        ),
        answer=answer,
        leak_keys=tuple(sorted(keys)),
    )


def draw_voucher(rng: Random, voucher_type: str, price: float) -> Voucher:
    """A voucher that brings a basket of `price` PHP within its budget, drawn as ShoppingBench draws it."""
    threshold = rng.randint(math.ceil(0.1 * price), math.floor(0.9 * price))
    drawn: Raw = {"voucher_type": voucher_type, "threshold": threshold}
    if rng.random() < 113 / 250:
        face_value = rng.randint(math.ceil(0.1 * threshold), max(math.ceil(0.1 * threshold), threshold // 2))
        drawn |= {"discount_type": "fixed", "face_value": face_value}
    else:
        percent = rng.randint(10, 50)
        cap = rng.randint(min(threshold, threshold * percent // 100 + 1), threshold)
        drawn |= {"discount_type": "percentage", "discount": percent / 100, "cap": cap}
    after = Voucher.model_validate(drawn | {"budget": 0}).after(money(price))
    budget = math.ceil(after) + rng.randint(0, math.ceil(float(after) * 0.1))
    return Voucher.model_validate(drawn | {"budget": budget, "price_after_voucher": float(after)})


def _constraints(rng: Random, product: Product, *, priced: bool) -> Iterator[Raw]:
    """All that could be asked of this product, one constraint at a time."""
    if product.sku_options:
        option = rng.choice(list(product.sku_options.values()))
        keys = rng.sample(sorted(option), rng.randint(1, len(option)))
        yield {"sku_options": [{key: option[key] for key in keys}]}
    for key, values in product.attributes.items():
        if values:
            yield {"attributes": [{key: [rng.choice(values)]}]}
    for service in product.service:
        if rng.random() < 0.5:
            yield {"service": [service]}
    if priced and product.price >= 2:
        yield {"price": [_price_range(rng, product.price)]}


def _price_range(rng: Random, price: float) -> Raw:
    low = max(1, math.ceil(price * rng.uniform(0.5, 0.95)) - 1)
    high = math.floor(price * rng.uniform(1.05, 1.6)) + 1
    mode = rng.choices(("greater than", "between", "less than"), weights=(5, 4, 2))[0]
    return {mode: [None if mode == "less than" else low, None if mode == "greater than" else high]}


def _with(reward: Raw, constraint: Raw) -> Raw:
    return reward | {name: [*reward.get(name, []), *value] for name, value in constraint.items()}


def _fulfils(product: Product, reward: Raw) -> bool:
    """Whether `product` has all that the query of this reward would say; titles are never said."""
    if not set(reward.get("service", ())) <= set(product.service):
        return False
    for price in reward.get("price", ()):
        ((low, high),) = price.values()
        if (low is not None and product.price < low) or (high is not None and product.price > high):
            return False
    wanted = [pair for entry in reward.get("sku_options", ()) for pair in entry.items()]
    wanted += [(key, vs[0]) for entry in reward.get("attributes", ()) for key, vs in entry.items()]
    missing = [(key, value) for key, value in wanted if value not in product.attributes.get(key, ())]
    return not missing or any(
        all(option.get(key) == value for key, value in missing) for option in product.sku_options.values()
    )


def _gives_away(query: str, picked: Sequence[Product]) -> bool:
    """Whether a title or an id of the answer stands in the query."""
    said = _plain(query)
    return any(p.product_id in query or f" {_plain(p.title)} " in f" {said} " for p in picked)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
