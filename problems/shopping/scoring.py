"""The rule outcome of a shopping attempt: component scores, and solved or not.

Pure. The rules are those of subnet 15's production scorer, which are ShoppingBench's (arXiv 2508.04266,
section "Evaluation", and its `rewards/orm.py`, `rewards/prm.py`) with a title threshold of 0.7. Component
names are theirs. For web problems, which subnet 15 does not have, they are ShoppingBench's, with the answer
taken as whole words of the title (`web_rule.py`). Nothing of form (`length`, `format`) enters success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from problems.environment import Attempt, AttemptStep, Outcome, RuleFailure, ToolUse
from problems.problem import AnsweredProblem
from problems.shopping.answer import PriceRange as PriceRange
from problems.shopping.answer import ShoppingAnswer, Target, read_answer
from problems.shopping.answer import UnscorableProblem as UnscorableProblem
from problems.shopping.options import ShoppingOptions
from problems.shopping.product import Product
from problems.shopping.similarity import TitleSimilarity
from problems.shopping.vouchers import total
from problems.shopping.web_rule import WEB_THRESHOLD, mentioned, named

RULES = "shopping-rules-1"
TITLE_THRESHOLD = 0.7
"""At least this similarity makes two titles the same (subnet 15)."""
PARITY_THRESHOLD = 0.5
"""What ShoppingBench itself uses."""
RACED = ShoppingOptions()
"""How races are scored."""

_FIELDS = ("title", "price", "service", "sku & attrs")
_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>")

Lookup = Callable[[str], Product | None]
"""A product by its id, None when the catalog lacks it."""


@dataclass(frozen=True, slots=True)
class Match:
    """One product held against one target."""

    product: Product
    exact: bool
    hits: dict[str, int]
    totals: dict[str, int]
    failures: tuple[RuleFailure, ...] = field(default=())

    @property
    def relevance(self) -> float:
        """1 for the target itself, else the share of wanted things the product has; 0 if none are wanted."""
        wanted = sum(self.totals.values())
        if self.exact:
            return 1.0
        return sum(self.hits.values()) / wanted if wanted else 0.0

    def ratio(self, name: str) -> float:
        """The share of one field's wanted things that the product has; 0 when the field wants nothing."""
        return self.hits[name] / self.totals[name] if self.totals[name] else 0.0


def scorer_name(similarity: TitleSimilarity, options: ShoppingOptions = RACED) -> str:
    """What `Outcome.scorer` says: the rules' version and the similarity with its threshold."""
    rules = RULES if options.parity is None else f"{RULES}/{options.parity}"
    return f"{rules}+{similarity.name}@{title_threshold(options)}"


def title_threshold(options: ShoppingOptions) -> float:
    """The similarity from which two titles are the same, outside web problems."""
    return TITLE_THRESHOLD if options.parity is None else PARITY_THRESHOLD


def recommended_ids(attempt: Attempt) -> list[str]:
    """The ids of the last accepted `recommend_product` call: stripped, without empties and repetitions."""
    for use in reversed(attempt.uses):
        if use.name == "recommend_product" and use.ok:
            written = str(use.arguments.get("product_ids") or "")
            return list(dict.fromkeys(part.strip() for part in written.split(",") if part.strip()))
    return []


def match(
    product: Product,
    target: Target,
    similarity: TitleSimilarity,
    *,
    threshold: float = TITLE_THRESHOLD,
    where: str = "target",
) -> Match:
    """Hold `product` against `target`; `where` names the target in the failures."""
    exact = product.product_id == target.product_id
    failures: list[RuleFailure] = []

    def holds(rule: str, held: bool, wanted: object, found: object) -> int:
        if not held and not exact:
            failures.append(RuleFailure(f"{where}.{rule}", wanted, found))
        return int(held)

    def titled(title: str) -> int:
        alike = 1.0 if exact else similarity.similarity(product.title, title)
        return holds("title", alike >= threshold, *_titles(title, threshold, product.title, alike))

    hits = {
        "title": sum(map(titled, target.title)),
        "price": sum(
            holds("price", price.holds(product.price), price.model_dump(), product.price)
            for price in target.price
        ),
        "service": sum(
            holds("service", service in product.service, service, list(product.service))
            for service in target.service
        ),
        "sku & attrs": 0,
    }
    wanted = target.pairs()
    found = _best_pairs(product, wanted)
    for key, value in sorted(wanted):
        held = (key, value) in found
        hits["sku & attrs"] += holds("sku & attrs", held, {key: value}, _values(product, key))
    totals = {
        "title": len(target.title),
        "price": len(target.price),
        "service": len(target.service),
        "sku & attrs": len(wanted),
    }
    return Match(product, exact, hits, totals, tuple(failures))


def score(
    problem: AnsweredProblem,
    attempt: Attempt,
    lookup: Lookup,
    similarity: TitleSimilarity,
    *,
    options: ShoppingOptions = RACED,
) -> Outcome:
    """Apply the rules to what an agent did.

    Raises UnscorableProblem when the problem's answer is malformed, or its category has no rules here.
    """
    rules = _Rules(read_answer(problem), recommended_ids(attempt), lookup, similarity, options)
    by_category = {"product": rules.one_product, "web": rules.web}
    found, solved, failures = by_category.get(problem.problem.category, rules.many_products)()
    components = {"length": length(attempt.steps), "format": form(attempt.steps)} | found
    return Outcome(components, solved, scorer_name(similarity, options), tuple(failures))


_Found = tuple[dict[str, float], bool, Sequence[RuleFailure]]
"""Components, whether the problem is solved, and the rules that did not hold."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of each category, on what was recommended for one problem."""

    answer: ShoppingAnswer
    ids: Sequence[str]
    lookup: Lookup
    similarity: TitleSimilarity
    options: ShoppingOptions

    def one_product(self) -> _Found:
        """The first product against the first target."""
        held = self._held(0)
        if isinstance(held, RuleFailure):
            return {}, False, [held]
        components = _averages([held])
        return components, components["rule"] >= 1, held.failures

    def many_products(self) -> _Found:
        """Products against targets by position, and the rule over all of them together."""
        held = [self._held(at) for at in range(len(self.answer.reward))]
        matches = [m for m in held if isinstance(m, Match)]
        failures = [f for m in held for f in (m.failures if isinstance(m, Match) else (m,))]
        components = _averages([m if isinstance(m, Match) else None for m in held])
        name, passed, failure = _basket(self.answer, matches)
        failures += [failure] if failure else []
        return components | {name: float(passed)}, components["rule"] >= 1 and passed, failures

    def web(self) -> _Found:
        """The target itself, or a product whose title names the answer and is nearly the target's."""
        product = self._product(0)
        if isinstance(product, RuleFailure):
            return {}, False, [product]
        target, wanted = self.answer.reward[0], self.answer.knowledge or ""
        exact = product.product_id == target.product_id
        alike = 1.0 if exact else self.similarity.similarity(product.title, target.title[0])
        says = exact or (mentioned(wanted, product) if self.options.parity else named(wanted, product.title))
        same = alike >= WEB_THRESHOLD
        components = {
            "product": 1.0,
            "gt": float(exact),
            "rule": (says + same) / 2,
            "answer": float(says),
            "title": float(same),
        }
        failures = [] if says else [RuleFailure("target 1.answer", wanted, product.title)]
        if not same:
            titles = _titles(target.title[0], WEB_THRESHOLD, product.title, alike)
            failures.append(RuleFailure("target 1.title", *titles))
        return components, says and same, failures

    def _product(self, at: int) -> Product | RuleFailure:
        """The product that was recommended for the target at position `at`, or why there is none."""
        where, wanted = f"target {at + 1}", self.answer.reward[at].product_id
        if at >= len(self.ids):
            return RuleFailure(f"{where}.recommended", wanted, None)
        return self.lookup(self.ids[at]) or RuleFailure(f"{where}.in the catalog", wanted, self.ids[at])

    def _held(self, at: int) -> Match | RuleFailure:
        product = self._product(at)
        if isinstance(product, RuleFailure):
            return product
        target, threshold = self.answer.reward[at], title_threshold(self.options)
        return match(product, target, self.similarity, threshold=threshold, where=f"target {at + 1}")


def intended_attempt(problem: AnsweredProblem) -> Attempt:
    """The attempt that recommends exactly the targets: what a certified problem must take as solved."""
    ids = ",".join(target.product_id for target in read_answer(problem).reward)
    uses = (ToolUse("recommend_product", {"product_ids": ids}), ToolUse("terminate", {"status": "success"}))
    return Attempt(tuple(AttemptStep((use,), reasoning="intended", timestamp_ms=1.0) for use in uses))


def length(steps: Sequence[AttemptStep]) -> float:
    """1/number of steps when the last one ends the episode itself, else 0."""
    ends = bool(steps) and any(use.name == "terminate" for use in steps[-1].uses)
    return 1 / len(steps) if ends else 0.0


def form(steps: Sequence[AttemptStep]) -> float:
    """The mean over steps of how well formed each is; 0 for no steps."""
    return sum(map(_form_of, steps)) / len(steps) if steps else 0.0


def _form_of(step: AttemptStep) -> float:
    """1 for reasoning with a tool call or text, no tag inside; half of it without a time; else 0."""
    said = step.reasoning + step.response
    if not step.reasoning or not (step.uses or step.response) or any(tag in said for tag in _TAGS):
        return 0.0
    timed = step.timestamp_ms is not None and step.timestamp_ms > 0
    return 1.0 if timed else 0.5


def _titles(wanted: str, threshold: float, found: str, alike: float) -> tuple[object, object]:
    """What the title rule wanted and what it found. Rounded: embeddings differ in the last digits by host."""
    return {"title": wanted, "at least": threshold}, {"title": found, "similarity": round(alike, 3)}


def _averages(matches: Sequence[Match | None]) -> dict[str, float]:
    """Component scores, averaged over the targets; a target without a product counts 0."""

    def mean(values: Iterator[float]) -> float:
        return sum(values) / len(matches)

    found = [m for m in matches if m is not None]
    return {
        "product": mean(1.0 for _ in found),
        "gt": mean(float(m.exact) for m in found),
        "rule": mean(m.relevance for m in found),
    } | {name: mean(m.ratio(name) for m in found) for name in _FIELDS}


def _basket(answer: ShoppingAnswer, matches: Sequence[Match]) -> tuple[str, bool, RuleFailure | None]:
    """The rule over all products together: one shop, or within the budget."""
    relevant = [m.product for m in matches if m.relevance > 0]
    shops = {p.shop_id for p in relevant}
    name = "shop" if answer.voucher is None else "budget"
    if len(relevant) != len(answer.reward):
        return name, False, RuleFailure(name, f"{len(answer.reward)} relevant products", len(relevant))
    if answer.voucher is None:
        passed = len(shops) == 1
        return name, passed, None if passed else RuleFailure(name, "one shop", sorted(shops))
    price = total(p.price for p in relevant)
    passed = answer.voucher.affordable(price, len(shops))
    found = {"price": float(price), "shops": len(shops)}
    return name, passed, None if passed else RuleFailure(name, answer.voucher.model_dump(), found)


def _best_pairs(product: Product, wanted: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """The wanted pairs that the best single SKU option, or none, has together with the attributes."""
    attributes = {(key, v) for key, values in product.attributes.items() for v in values}
    options: list[set[tuple[str, str]]] = [set()]
    options += [set(option.items()) for option in product.sku_options.values()]
    return max((wanted & (option | attributes) for option in options), key=len)


def _values(product: Product, key: str) -> list[str]:
    sku = [option[key] for option in product.sku_options.values() if key in option]
    return list(dict.fromkeys([*product.attributes.get(key, ()), *sku]))
