"""What one episode may spend, and what it has spent.

`Budget` is the limits, fixed before the episode; `Meter` counts. The one thing to know: completion tokens are
reserved when a model call starts and settled when it ends, so that calls made at the same time cannot
together spend more than was left.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


class BudgetSpent(Exception):
    """A budget is used up. `which` is the name of the field of `Budget`."""

    def __init__(self, which: str, limit: int) -> None:
        super().__init__(f"this episode's budget of {limit} {which.replace('_', ' ')} is spent")
        self.which = which


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one episode. All must be above zero."""

    model_calls: int = 64
    tool_calls: int = 128
    prompt_tokens: int = 1_000_000
    completion_tokens: int = 100_000
    completion_tokens_per_call: int = 8_192
    prompt_bytes_per_call: int = 256 * 1024
    """Of the messages and tools of one model call, as JSON: what a provider may be asked to read."""
    body_bytes: int = 1024 * 1024
    """Of one request."""
    total_bytes: int = 16 * 1024 * 1024
    """Of all request bodies together: it bounds the log."""
    concurrent_requests: int = 8
    """Executed at once; more wait their turn."""
    connections: int = 32
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
            if getattr(self, limit.name) <= 0:
                raise ValueError(f"budget {limit.name} must be above zero: an agent could not even begin")

    def to_json(self) -> dict[str, float]:
        """The limits as a JSON object."""
        return asdict(self)


class Meter:
    """What an episode has spent of its budget. Not thread-safe: it belongs to the event loop."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.model_calls = 0
        self.tool_calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.total_bytes = 0
        self.exhausted: set[str] = set()
        """The budgets that some request found spent."""
        self._reserved = 0

    def start_model_call(self, wanted_tokens: int | None) -> int:
        """Count a model call and return how many completion tokens are reserved for it (at least one).

        Raises BudgetSpent.
        """
        self._require("model_calls", self.model_calls, 1)
        self._require("prompt_tokens", self.prompt_tokens, 1)
        self._require("completion_tokens", self.completion_tokens + self._reserved, 1)
        left = self.budget.completion_tokens - self.completion_tokens - self._reserved
        granted = min(wanted_tokens or left, left, self.budget.completion_tokens_per_call)
        self.model_calls += 1
        self._reserved += granted
        return granted

    def end_model_call(self, granted: int, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Settle a call that `start_model_call` granted."""
        self._reserved -= granted
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def refund_model_call(self, granted: int) -> None:
        """Undo `start_model_call`: the provider did not answer, which costs the agent nothing."""
        self._reserved -= granted
        self.model_calls -= 1

    def count_tool_call(self) -> None:
        """Count a tool call. Raises BudgetSpent."""
        self._require("tool_calls", self.tool_calls, 1)
        self.tool_calls += 1

    def count_bytes(self, size: int) -> None:
        """Count the body of a request. Raises BudgetSpent."""
        self._require("total_bytes", self.total_bytes, size)
        self.total_bytes += size

    def spent(self) -> dict[str, int]:
        """What was spent, by the names that `Budget` uses."""
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_bytes": self.total_bytes,
        }

    def _require(self, which: str, used: int, wanted: int) -> None:
        limit: int = getattr(self.budget, which)
        if used + wanted > limit:
            self.exhausted.add(which)
            raise BudgetSpent(which, limit)
