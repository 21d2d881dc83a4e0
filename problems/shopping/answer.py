"""A shopping problem's answer, typed: what it is written like, and which answers the rules can score.

Answers are written as ShoppingBench writes them (arXiv 2508.04266).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from problems.problem import AnsweredProblem
from problems.shopping.product import Text, Texts
from problems.shopping.vouchers import Voucher
from problems.shopping.web_rule import words

CATEGORIES = ("product", "shop", "voucher", "web")


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
    """A problem's answer, as ShoppingBench writes it: the targets in order, and the voucher if any.

    Of a web problem: one target, with a title, and the answer to its question.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    reward: Annotated[tuple[Target, ...], BeforeValidator(_listed), Field(min_length=1)]
    voucher: Voucher | None = None
    knowledge: Text | None = Field(
        default=None, validation_alias=AliasChoices("Knowledge_Attribute", "knowledge")
    )


class _WebTarget(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    product_id: Annotated[Text, Field(min_length=1)]
    title: Annotated[Texts, Field(min_length=1, max_length=1)]


def read_answer(problem: AnsweredProblem) -> ShoppingAnswer:
    """The problem's answer, typed. Raises UnscorableProblem."""
    name, category = problem.problem.problem_id, problem.problem.category
    if category not in CATEGORIES:
        raise UnscorableProblem(
            f"problem {name} is of category {category!r}; the rules know {', '.join(CATEGORIES)}"
        )
    try:
        answer = _web_answer(problem) if category == "web" else ShoppingAnswer.model_validate(problem.answer)
    except ValidationError as error:
        raise UnscorableProblem(f"the answer of problem {name} is malformed: {error}") from error
    if category == "voucher" and answer.voucher is None:
        raise UnscorableProblem(f"problem {name} is of category voucher and has no voucher")
    if category == "web" and not words(answer.knowledge or ""):
        raise UnscorableProblem(f"problem {name} is of category web and has no answer in words")
    return answer


def _web_answer(problem: AnsweredProblem) -> ShoppingAnswer:
    """Of a web problem the reward may be a whole product record, of which only id and title count."""
    reward = problem.answer.get("reward")
    first = reward[0] if isinstance(reward, list | tuple) and len(reward) == 1 else reward
    target = _WebTarget.model_validate(first)
    return ShoppingAnswer.model_validate(
        {**problem.answer, "reward": {"product_id": target.product_id, "title": target.title}}
    )
