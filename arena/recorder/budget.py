"""What one episode may spend, and what it has spent.

`Budget` is the limits, fixed before the episode; `Meter` counts. The one thing to know: completion tokens and
money are reserved when a model call starts and settled when it ends, so that calls made at the same time
cannot together spend more than was left. What a prompt costs is known only afterwards: by so much the last
call may go beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import NoReturn

_WORDS = {"usd": "US dollars", "wall_s": "seconds"}
"""How a budget is called, where it is not by its field's name."""
_MAY_BE_ZERO = frozenset({"temperature_max", "top_p_min", "penalty_max", "top_logprobs_max"})
_MAY_BE_NONE = frozenset({"usd", "wall_s"})
NANO = 10**9


class BudgetSpent(Exception):
    """A budget is used up. `which` is the name of the field of `Budget`."""

    def __init__(self, which: str, limit: float) -> None:
        words = _WORDS.get(which, which.replace("_", " "))
        super().__init__(f"this episode's budget of {limit:g} {words} is spent")
        self.which = which


class Unpriced(ValueError):
    """There is a budget in dollars, and a model without a price."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars a million tokens."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        if not (0 <= self.prompt < float("inf") and 0 <= self.completion < float("inf")):
            raise ValueError("a price must be a number of dollars a million tokens, zero or more")

    def nanodollars(self, prompt_tokens: int, completion_tokens: int) -> int:
        """The cost of a call, rounded up."""
        exact = (
            Fraction(repr(self.prompt)) * prompt_tokens + Fraction(repr(self.completion)) * completion_tokens
        )
        return -int(-exact * 1000 // 1)

    def affords(self, nanodollars: int) -> int | None:
        """How many completion tokens that buys; None when they cost nothing."""
        if not self.completion:
            return None
        return int(nanodollars // (Fraction(repr(self.completion)) * 1000))


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one episode. All must be above zero, but for those of sampling."""

    model_calls: int = 64
    tool_calls: int = 128
    prompt_tokens: int = 1_000_000
    completion_tokens: int = 100_000
    completion_tokens_per_call: int = 8_192
    usd: float | None = None
    """By the price table of the model's provider; None: money is not counted."""
    wall_s: float | None = None
    """From the first request for the problem; None: the sandbox alone ends the episode."""
    prompt_bytes_per_call: int = 256 * 1024
    """Of the messages and tools of one model call, as JSON: what a provider may be asked to read."""
    body_bytes: int = 1024 * 1024
    """Of one request."""
    total_bytes: int = 16 * 1024 * 1024
    """Of all request bodies together: it bounds the log."""
    concurrent_requests: int = 8
    """Executed at once; more wait their turn."""
    connections: int = 32
    temperature_max: float = 2.0
    top_p_min: float = 0.0
    penalty_max: float = 2.0
    top_logprobs_max: int = 5
    logged_refusals: int = 64
    """Refused requests that are logged one by one; the rest are only counted, so that a flood stays small."""
    lost_model_calls: int = 4
    """Calls lost for the provider's reasons before further ones are answered without asking it again."""
    tool_timeout_s: float = 30.0
    """A tool that takes longer is our failure."""
    request_timeout_s: float = 15.0
    """For a request to arrive whole, and for an answer to be taken."""
    idle_timeout_s: float = 120.0
    """Between two requests on one connection."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is None and limit.name in _MAY_BE_NONE:
                continue
            if value < 0 or (value == 0 and limit.name not in _MAY_BE_ZERO):
                raise ValueError(f"budget {limit.name} must be above zero: an agent could not even begin")

    def to_json(self) -> dict[str, float | None]:
        """The limits as a JSON object."""
        return asdict(self)

    def check_prices(self, models: tuple[str, ...], prices: Mapping[str, Price]) -> None:
        """Raise Unpriced when money is counted and a model has no price."""
        without = [model for model in models if model not in prices]
        if self.usd is not None and without:
            raise Unpriced(
                f"there is a budget of {self.usd:g} US dollars an episode, but no price for "
                f"{', '.join(without)}: set it, in dollars a million tokens, in model.prices"
            )


@dataclass(frozen=True, slots=True)
class Grant:
    """What is set aside for one model call."""

    completion_tokens: int
    nanodollars: int


class Meter:
    """What an episode has spent of its budget. Not thread-safe: it belongs to the event loop."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.model_calls = 0
        self.tool_calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.nanodollars = 0
        self.total_bytes = 0
        self.exhausted: set[str] = set()
        """The budgets that some request found spent."""
        self._reserved_tokens = 0
        self._reserved_money = 0

    def start_model_call(
        self, wanted_tokens: int | None, *, prompt_tokens: int = 0, price: Price | None = None
    ) -> Grant:
        """Count a model call and set aside what it may cost: at least one completion token.

        `prompt_tokens` is an estimate. Raises BudgetSpent.
        """
        self._require("model_calls", self.model_calls, 1)
        self._require("prompt_tokens", self.prompt_tokens, 1)
        self._require("completion_tokens", self.completion_tokens + self._reserved_tokens, 1)
        left = self.budget.completion_tokens - self.completion_tokens - self._reserved_tokens
        tokens = min(wanted_tokens or left, left, self.budget.completion_tokens_per_call)
        money = 0
        if price is not None and self.budget.usd is not None:
            tokens = self._affordable(tokens, price, prompt_tokens)
            money = price.nanodollars(prompt_tokens, tokens)
        self.model_calls += 1
        self._reserved_tokens += tokens
        self._reserved_money += money
        return Grant(tokens, money)

    def end_model_call(
        self, grant: Grant, *, prompt_tokens: int, completion_tokens: int, price: Price | None = None
    ) -> None:
        """Settle a call that `start_model_call` granted."""
        self._release(grant)
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        if price is not None:
            self.nanodollars += price.nanodollars(prompt_tokens, completion_tokens)

    def refund_model_call(self, grant: Grant) -> None:
        """Undo `start_model_call`: the provider did not answer, which costs the agent nothing."""
        self._release(grant)
        self.model_calls -= 1

    def count_tool_call(self) -> None:
        """Count a tool call. Raises BudgetSpent."""
        self._require("tool_calls", self.tool_calls, 1)
        self.tool_calls += 1

    def count_bytes(self, size: int) -> None:
        """Count the body of a request. Raises BudgetSpent."""
        self._require("total_bytes", self.total_bytes, size)
        self.total_bytes += size

    def check_wall(self, elapsed_s: float) -> None:
        """Raises BudgetSpent when the episode has gone on for longer than it may."""
        if self.budget.wall_s is not None and elapsed_s > self.budget.wall_s:
            self._spent("wall_s")

    def spent(self) -> dict[str, float]:
        """What was spent, by the names that `Budget` uses."""
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": self.nanodollars / NANO,
            "total_bytes": self.total_bytes,
        }

    def _affordable(self, tokens: int, price: Price, prompt_tokens: int) -> int:
        assert self.budget.usd is not None
        limit = int(Fraction(repr(self.budget.usd)) * NANO)
        left = limit - self.nanodollars - self._reserved_money - price.nanodollars(prompt_tokens, 0)
        buys = price.affords(left) if left >= 0 else 0
        if buys is not None and buys < 1:
            self._spent("usd")
        return tokens if buys is None else min(tokens, buys)

    def _release(self, grant: Grant) -> None:
        self._reserved_tokens -= grant.completion_tokens
        self._reserved_money -= grant.nanodollars

    def _require(self, which: str, used: int, wanted: int) -> None:
        if used + wanted > getattr(self.budget, which):
            self._spent(which)

    def _spent(self, which: str) -> NoReturn:
        self.exhausted.add(which)
        raise BudgetSpent(which, getattr(self.budget, which))
