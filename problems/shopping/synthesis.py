"""Problems from a catalog, without end and without people: targets, constraints, words, and a proof.

Every problem is certified before it leaves: its targets have all that is asked; no product of the same kind
has all of it and yet a different title, so that whoever checks carefully finds the one that was meant; each
target is within the reach of a plain search; the true basket can be bought within the budget, and not without
the voucher, proven in whole centavos; no title or id stands in the query. How many products have all that is
asked is recorded with the answer.

A batch is a function of catalog, seed, category, difficulty and its number alone. So batches can be made in
any order by any number of processes, and taken in order they give the same problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random

from problems.problem import AnsweredProblem
from problems.shopping import verbaliser
from problems.shopping.answer import Target
from problems.shopping.catalog import Catalog
from problems.shopping.certificate import gives_away, holds_words
from problems.shopping.drawing import basket_size, needed_voucher
from problems.shopping.facts import Fact
from problems.shopping.identity import answered
from problems.shopping.levels import LEVELS, Level
from problems.shopping.reach import plain_search
from problems.shopping.scoring import intended_attempt, score
from problems.shopping.selection import Asked, Demand, ask, has_twins
from problems.shopping.shelf import Raw, Shelf, Shelved
from problems.shopping.similarity import LexicalSimilarity, TitleSimilarity
from problems.shopping.vouchers import Voucher
from problems.shopping.web_rule import WEB_THRESHOLD, named

SYNTHESIS = "synthesis-2"
"""Changes with anything that changes what a seed gives."""

BATCH = 16
"""Problems that a batch tries to make."""


class SynthesisError(Exception):
    """The catalog does not give as many certified problems as were asked for."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch's name: what it is made from, besides the catalog."""

    seed: int
    category: str
    difficulty: str
    number: int


@dataclass(frozen=True, slots=True)
class Certified:
    """A problem with what its query was made from, and for each target how many products would do."""

    problem: AnsweredProblem
    nouns: tuple[str, ...]
    satisfying: tuple[int, ...]
    question: str = ""
    """Of a web problem: what its query begins with."""


class Synthesiser:
    """Makes batches from one catalog."""

    def __init__(
        self, catalog: Catalog, facts: Sequence[Fact] = (), similarity: TitleSimilarity | None = None
    ) -> None:
        """Read the catalog. Raises SynthesisError when there is nothing to ask for in it."""
        self._catalog = catalog
        self._facts = facts
        self._similarity: TitleSimilarity = similarity or LexicalSimilarity()
        self._shelf = Shelf(catalog)
        if not self._shelf.products:
            raise SynthesisError("no product of this catalog has a category: there is nothing to ask for")

    def batch(self, batch: Batch) -> list[Certified]:
        """What became of the batch's tries; those that could not be certified are left out."""
        makers = {"product": self._product, "shop": self._shop, "voucher": self._voucher, "web": self._web}
        make = makers[batch.category]
        level = LEVELS[batch.difficulty]
        rng = Random(f"{SYNTHESIS}:{batch.seed}:{batch.category}:{batch.difficulty}:{batch.number}")
        return [made for _ in range(BATCH) if (made := make(rng, level)) is not None]

    def _product(self, rng: Random, level: Level) -> Certified | None:
        (one,) = self._pick(rng, self._shelf.products, 1)
        asked = self._single(rng, one, one.kind.every, Demand(level.least, level.twins, level.alone))
        return self._certified("product", level, [one], [asked], partial(verbaliser.product_query, rng))

    def _shop(self, rng: Random, level: Level) -> Certified | None:
        """A basket of one shop. One product leads to it, told apart from all; the others only within it."""
        picked = self._pick_in_shop(rng, basket_size(rng, "shop", level.name))
        if not picked:
            return None
        demand = Demand(level.least_in_basket, level.twins)
        lead = rng.choice(picked)
        asked = self._each(
            rng,
            picked,
            demand,
            lambda one: one.kind.every if one is lead else one.kind.of_shop(one.product.shop_id),
        )
        made = self._certified("shop", level, picked, asked, partial(verbaliser.shop_query, rng), lead=lead)
        return made if made is not None and _only_shop(picked, made) else None

    def _voucher(self, rng: Random, level: Level) -> Certified | None:
        size = basket_size(rng, "voucher", level.name)
        kind = rng.choices(("platform", "shop"), weights=(129, 121))[0]
        if kind == "platform" or size == 1:
            picked = self._pick(rng, self._shelf.products, size)
        else:
            picked = self._pick_in_shop(rng, size)
        voucher = needed_voucher(rng, kind, [one.product for one in picked])
        if voucher is None:
            return None
        demand = Demand(level.least_in_basket, level.twins, priced=False)
        asked = self._each(rng, picked, demand, lambda one: one.kind.every)
        query = partial(verbaliser.voucher_query, rng, voucher=voucher)
        return self._certified("voucher", level, picked, asked, query, voucher=voucher)

    def _web(self, rng: Random, level: Level) -> Certified | None:
        """A product whose title names the answer to a question, asked for by the question."""
        if not self._facts:
            return None
        fact = rng.choice(self._facts)
        titled = [one for one in self._titled(fact.answer) if not holds_words(one.kind.noun, fact.answer)]
        if not titled:
            return None
        one = rng.choice(titled)
        among = sum(1 << other.place for other in titled if other.kind is one.kind)
        demand = Demand(
            level.least - 1, level.twins, level.alone, untold=fact.answer, threshold=WEB_THRESHOLD
        )
        asked = self._single(rng, one, among, demand)
        query = partial(verbaliser.web_query, rng, question=fact.question)
        made = self._certified("web", level, [one], [asked], query, fact=fact)
        return None if made is None or holds_words(made.problem.problem.query, fact.answer) else made

    def _single(self, rng: Random, one: Shelved, among: int, demand: Demand) -> Asked | None:
        asked = ask(rng, one, among, demand, self._similarity)
        if asked is None or not demand.alone:
            return asked
        near = [other.product for other in self._shown(one.product.title) if other.kind is one.kind]
        return asked if has_twins(one, asked.reward, near, demand, self._similarity) else None

    def _each(
        self, rng: Random, picked: Sequence[Shelved], demand: Demand, among: Callable[[Shelved], int]
    ) -> list[Asked | None]:
        """What is asked of each product of a basket; it ends with the first of which nothing can be."""
        asked: list[Asked | None] = []
        for one in picked:
            asked.append(ask(rng, one, among(one), demand, self._similarity))
            if asked[-1] is None:
                break
        return asked

    def _titled(self, answer: str) -> list[Shelved]:
        """The products whose titles name the answer as whole words, as far as a search for it shows them."""
        return [one for one in self._shown(answer) if named(answer, one.product.title)]

    def _shown(self, q: str) -> list[Shelved]:
        """The products that a plain search shows."""
        return [one for row in self._catalog.window(q) if (one := self._by_row.get(row)) is not None]

    @cached_property
    def _by_row(self) -> dict[int, Shelved]:
        return {one.row: one for one in self._shelf.products}

    def _pick(self, rng: Random, among: Sequence[Shelved], count: int) -> list[Shelved]:
        """`count` products of different kinds; none when that cannot be had."""
        picked: list[Shelved] = []
        for _ in range(count * 12):
            one = rng.choice(among)
            if all(one.kind is not other.kind for other in picked):
                picked.append(one)
            if len(picked) == count:
                return picked
        return []

    def _pick_in_shop(self, rng: Random, count: int) -> list[Shelved]:
        shops = self._shelf.shops
        return self._pick(rng, self._shelf.by_shop[rng.choice(shops)], count) if shops else []

    def _certified(
        self,
        category: str,
        level: Level,
        picked: Sequence[Shelved],
        asked: Sequence[Asked | None],
        query_of: Callable[[list[tuple[str, Target]]], str],
        *,
        lead: Shelved | None = None,
        voucher: Voucher | None = None,
        fact: Fact | None = None,
    ) -> Certified | None:
        found = [one for one in asked if one is not None]
        if not picked or len(found) < len(picked):
            return None
        raw = [one.reward for one in found]
        targets = [Target.model_validate(reward) for reward in raw]
        wanted = [(one.kind.noun, target) for one, target in zip(picked, targets, strict=True)]
        query = query_of(wanted)
        products = [one.product for one in picked]
        if gives_away(query, products):
            return None
        shops = {product.shop_id for product in products}
        ranks = []
        for one, target in zip(picked, targets, strict=True):
            inside = one.product.shop_id if lead not in (None, one) and len(shops) == 1 else None
            ranks.append(self._rank(one, target, fact, inside))
            if ranks[-1] is None:
                return None
        deepest = max(rank for rank in ranks if rank is not None)
        if not level.deepest[0] <= deepest <= level.deepest[1]:
            return None
        satisfying = tuple(one.satisfying for one in found)
        answer: Raw = {"reward": raw[0] if category in ("product", "web") else raw}
        if voucher is not None:
            answer["voucher"] = voucher.model_dump(mode="json")
        if fact is not None:
            answer["Knowledge_Attribute"] = fact.answer
        answer["satisfying"] = list(satisfying)
        problem = answered(
            category,
            query,
            answer,
            [product.product_id for product in products],
            scope=self._catalog.catalog_id,
            difficulty=level.name,
            facts=() if fact is None else (fact.question,),
        )
        if not score(problem, intended_attempt(problem), self._catalog.get, self._similarity).solved:
            return None
        nouns = tuple(one.kind.noun for one in picked)
        return Certified(problem, nouns, satisfying, "" if fact is None else fact.question)

    def _rank(self, one: Shelved, target: Target, fact: Fact | None, shop_id: str | None) -> int | None:
        """Where a plain search shows the target, from 1; None where it does not.

        The search is within `shop_id` where another product leads to it.
        """
        said = [] if fact is None else [fact.answer]
        words, filters = plain_search(target, one.kind.noun, said=said, shop_id=shop_id)
        rows = self._catalog.window(words, filters)
        return rows.index(one.row) + 1 if one.row in rows else None


def _only_shop(picked: Sequence[Shelved], made: Certified) -> bool:
    """Whether no other shop sells products that fulfil every one of the targets' constraints."""
    shops: set[str] | None = None
    for one, reward in zip(picked, made.problem.answer["reward"], strict=True):
        selling = {product.shop_id for product in one.kind.fulfilling(reward)}
        shops = selling if shops is None else shops & selling
    return shops == {picked[0].product.shop_id}
