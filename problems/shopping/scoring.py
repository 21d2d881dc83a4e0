"""The rule outcome of a shopping attempt: component scores, and solved or not.

Pure. The rules are those of subnet 15's production scorer, which are ShoppingBench's (arXiv 2508.04266,
section "Evaluation", and its `rewards/orm.py`, `rewards/prm.py`) with a title threshold of 0.7. Component
names are theirs. Nothing of form (`length`, `format`) enters success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from problems.environment import Attempt, AttemptStep, Outcome, RuleFailure, ToolUse
from problems.problem import AnsweredProblem
from problems.shopping.product import Product, Text, Texts
from problems.shopping.similarity import TitleSimilarity
from problems.shopping.vouchers import Voucher, total

RULES = "shopping-rules-1"
TITLE_THRESHOLD = 0.7
"""At least this similarity makes two titles the same (subnet 15; ShoppingBench itself uses 0.5)."""

_FIELDS = ("title", "price", "service", "sku & attrs")
_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>")

Lookup = Callable[[str], Product | None]
"""A product by its id, None when the catalog lacks it."""


class UnscorableProblem(ValueError):
    """The problem's answer cannot be scored by these rules; the message says why."""


class PriceRange(BaseModel):
    """Inclusive bounds in PHP; None is unbounded."""

    model_config = ConfigDict(frozen=True)

    low: float | None = None
    high: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_mode(cls, value: Any) -> Any:
        """Read ShoppingBench's `{mode: [low, high]}`."""
        if not isinstance(value, dict) or len(value) != 1:
            return value
        ((mode, bounds),) = value.items()
        if mode in ("low", "high"):
            return value
        if mode not in ("less than", "greater than", "between"):
            raise ValueError(f"unknown price mode {mode!r}")
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise ValueError(f"the bounds of a price range are a pair, not {bounds!r}")
        low, high = bounds
        return {"low": None if mode == "less than" else low, "high": None if mode == "greater than" else high}

    @model_validator(mode="after")
    def _bounded(self) -> PriceRange:
        if self.low is None and self.high is None:
            raise ValueError("a price range needs a bound")
        return self

    def holds(self, price: float) -> bool:
        """Whether `price` lies within the bounds."""
        return (self.low is None or price >= self.low) and (self.high is None or price <= self.high)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


class Target(BaseModel):
    """A ground-truth product: its id, and what a product must have to be as good."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    product_id: Annotated[Text, Field(min_length=1)]
    title: Texts = ()
    price: tuple[PriceRange, ...] = ()
    service: Texts = ()
    sku_options: tuple[dict[str, Text], ...] = ()
    attributes: tuple[dict[str, Texts], ...] = ()

    def pairs(self) -> frozenset[tuple[str, str]]:
        """Every (key, value) that is wanted of SKU and attributes together."""
        sku = {pair for option in self.sku_options for pair in option.items()}
        attributes = {(key, v) for entry in self.attributes for key, vs in entry.items() for v in vs}
        return frozenset(sku | attributes)


class ShoppingAnswer(BaseModel):
    """A problem's answer, as ShoppingBench writes it: the targets in order, and the voucher if any."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reward: Annotated[tuple[Target, ...], BeforeValidator(_listed), Field(min_length=1)]
    voucher: Voucher | None = None


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


def scorer_name(similarity: TitleSimilarity) -> str:
    """What `Outcome.scorer` says: the rules' version and the similarity with its threshold."""
    return f"{RULES}+{similarity.name}@{TITLE_THRESHOLD}"


def recommended_ids(attempt: Attempt) -> list[str]:
    """The ids of the last accepted `recommend_product` call: stripped, without empties and repetitions."""
    for use in reversed(attempt.uses):
        if use.name == "recommend_product" and use.ok:
            written = str(use.arguments.get("product_ids") or "")
            return list(dict.fromkeys(part.strip() for part in written.split(",") if part.strip()))
    return []


def match(product: Product, target: Target, similarity: TitleSimilarity, *, where: str = "target") -> Match:
    """Hold `product` against `target`; `where` names the target in the failures."""
    exact = product.product_id == target.product_id
    failures: list[RuleFailure] = []

    def holds(rule: str, held: bool, wanted: object, found: object) -> int:
        if not held and not exact:
            failures.append(RuleFailure(f"{where}.{rule}", wanted, found))
        return int(held)

    hits = {
        "title": sum(
            holds("title", exact or _same_title(product.title, title, similarity), title, product.title)
            for title in target.title
        ),
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


def score(problem: AnsweredProblem, attempt: Attempt, lookup: Lookup, similarity: TitleSimilarity) -> Outcome:
    """Apply the rules to what an agent did.

    Raises UnscorableProblem when the problem's answer is malformed, or its category has no rules here.
    """
    category = problem.problem.category
    answer = read_answer(problem)
    ids = recommended_ids(attempt)
    components = {"length": length(attempt.steps), "format": form(attempt.steps)}
    if category == "product":
        matches = [_matched(ids[:1], answer.reward[:1], 0, lookup, similarity)]
        if isinstance(matches[0], RuleFailure):
            return Outcome(components, False, scorer_name(similarity), (matches[0],))
    else:
        matches = [_matched(ids, answer.reward, i, lookup, similarity) for i in range(len(answer.reward))]
    components |= _averages([m if isinstance(m, Match) else None for m in matches])
    failures = [f for m in matches for f in (m.failures if isinstance(m, Match) else (m,))]
    solved = components["rule"] >= 1
    if category != "product":
        name, passed, failure = _basket(answer, [m for m in matches if isinstance(m, Match)])
        components[name] = float(passed)
        solved = solved and passed
        failures += [failure] if failure else []
    return Outcome(components, solved, scorer_name(similarity), tuple(failures))


def intended_attempt(problem: AnsweredProblem) -> Attempt:
    """The attempt that recommends exactly the targets: what a certified problem must take as solved."""
    ids = ",".join(target.product_id for target in read_answer(problem).reward)
    uses = (ToolUse("recommend_product", {"product_ids": ids}), ToolUse("terminate", {"status": "success"}))
    return Attempt(tuple(AttemptStep((use,), reasoning="intended", timestamp_ms=1.0) for use in uses))


def read_answer(problem: AnsweredProblem) -> ShoppingAnswer:
    """The problem's answer, typed. Raises UnscorableProblem."""
    name, category = problem.problem.problem_id, problem.problem.category
    if category not in ("product", "shop", "voucher"):
        raise UnscorableProblem(
            f"problem {name} is of category {category!r}; the rules know product, shop and voucher"
        )
    try:
        answer = ShoppingAnswer.model_validate(problem.answer)
    except ValidationError as error:
        raise UnscorableProblem(f"the answer of problem {name} is malformed: {error}") from error
    if category == "voucher" and answer.voucher is None:
        raise UnscorableProblem(f"problem {name} is of category voucher and has no voucher")
    return answer


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


def _matched(
    ids: Sequence[str], targets: Sequence[Target], i: int, lookup: Lookup, similarity: TitleSimilarity
) -> Match | RuleFailure:
    """The product at position `i` against the target there, or why there is none."""
    where = f"target {i + 1}"
    if i >= len(ids):
        return RuleFailure(f"{where}.recommended", targets[i].product_id, None)
    product = lookup(ids[i])
    if product is None:
        return RuleFailure(f"{where}.in the catalog", targets[i].product_id, ids[i])
    return match(product, targets[i], similarity, where=where)


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


def _same_title(candidate: str, truth: str, similarity: TitleSimilarity) -> bool:
    return similarity.similarity(candidate, truth) >= TITLE_THRESHOLD


def _best_pairs(product: Product, wanted: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """The wanted pairs that the best single SKU option, or none, has together with the attributes."""
    attributes = {(key, v) for key, values in product.attributes.items() for v in values}
    options: list[set[tuple[str, str]]] = [set()]
    options += [set(option.items()) for option in product.sku_options.values()]
    return max((wanted & (option | attributes) for option in options), key=len)


def _values(product: Product, key: str) -> list[str]:
    sku = [option[key] for option in product.sku_options.values() if key in option]
    return list(dict.fromkeys([*product.attributes.get(key, ()), *sku]))
