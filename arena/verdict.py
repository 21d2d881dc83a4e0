"""What became of an episode: solved, failed by the agent's fault, or unscored by ours.

The one thing to know: `Unscored` has no number in it and no way to become one. Whoever averages verdicts must
leave unscored ones out and say how many; there is nothing here to average by mistake.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from problems.environment import Outcome


@dataclass(frozen=True, slots=True)
class Solved:
    """The rules hold."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent did not solve the problem. `reason` may be shown to anyone: it holds no part of an answer.

    `outcome` is None when there was nothing that the rules could look at.
    """

    reason: str
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Unscored:
    """We could not tell: the sandbox, the provider or the recorder let the agent down. To be retried."""

    reason: str


Verdict: TypeAlias = Solved | Failed | Unscored


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A verdict as it is stored with a trace."""

    verdict: Literal["solved", "failed", "unscored"]
    reason: str | None
    outcome: dict[str, Any] | None


def row_of(verdict: Verdict) -> VerdictRow:
    """The verdict as it is stored."""
    match verdict:
        case Solved(outcome):
            return VerdictRow("solved", None, asdict(outcome))
        case Failed(reason, outcome):
            return VerdictRow("failed", reason, None if outcome is None else asdict(outcome))
        case Unscored(reason):
            return VerdictRow("unscored", reason, None)
