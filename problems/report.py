"""What agents achieved on a suite: the success rate ASR and the relevance CAR, by category and overall. Pure.

ASR is the share of problems solved, CAR the mean of how much of what was asked the recommended products had
(ShoppingBench, arXiv 2508.04266, section "Evaluation"); a problem without a recommendation counts 0 in both.
Overall means are over problems, not over categories, as there. A problem that we could not score is in
neither; every figure says how many those are. The one thing to know: outcomes of different scorers are not
comparable, and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from problems.environment import Outcome
from problems.intervals import Share, clustered_ratio_interval, wilson

_SEED = 0
"""Of the resampling that gives CAR's interval: the same outcomes give the same report."""
_DIGITS = 6


class MixedScorers(ValueError):
    """Outcomes of different scorers were to be averaged or compared."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """One agent's attempt at one problem. `outcome` is None when we could not score it."""

    problem_id: str
    category: str
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Achieved:
    """The figures of one category, or of all together.

    `asr` has its Wilson interval, which takes attempts as independent; `car_interval` comes from resampling
    problems, and is None with fewer than two. `car` is None where nothing was scored.
    """

    asr: Share
    car: float | None
    car_interval: tuple[float, float] | None
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "scored": self.asr.n,
            "left_out": self.left_out,
            "solved": self.asr.successes,
            "asr": self.asr.share,
            "asr_interval": [self.asr.low, self.asr.high] if self.asr.n else None,
            "car": self.car,
            "car_interval": None if self.car_interval is None else list(self.car_interval),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All figures. `scorer` is None when nothing was scored."""

    scorer: str | None
    overall: Achieved
    by_category: Mapping[str, Achieved]

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "scorer": self.scorer,
            "overall": self.overall.to_json(),
            "by_category": {name: achieved.to_json() for name, achieved in self.by_category.items()},
        }


def report(attempts: Iterable[Attempted]) -> Report:
    """CAR and ASR of these attempts. Raises MixedScorers."""
    everything = list(attempts)
    scorer = same_scorer(a.outcome.scorer for a in everything if a.outcome is not None)
    categories = sorted({a.category for a in everything})
    return Report(
        scorer,
        _achieved(everything),
        {name: _achieved([a for a in everything if a.category == name]) for name in categories},
    )


def same_scorer(scorers: Iterable[str | None]) -> str | None:
    """The one scorer of all that were scored, None when none was. Raises MixedScorers when there are several.

    Ask this before anything that was scored is compared with anything else.
    """
    different = sorted({scorer for scorer in scorers if scorer is not None})
    if len(different) > 1:
        raise MixedScorers(
            f"these outcomes were scored in {len(different)} ways ({', '.join(different)}) and cannot be "
            "compared: score the recorded attempts again with one of them"
        )
    return different[0] if different else None


def relevance(outcome: Outcome) -> float:
    """How much of what was asked is fulfilled, in [0, 1]: the component `rule`, else solved or not."""
    return outcome.components.get("rule", float(outcome.solved))


def _achieved(attempts: Sequence[Attempted]) -> Achieved:
    scored = [(a.problem_id, a.outcome) for a in attempts if a.outcome is not None]
    by_problem: dict[str, list[float]] = {}
    for problem_id, outcome in scored:
        by_problem.setdefault(problem_id, []).append(relevance(outcome))
    totals = {name: (math.fsum(values), float(len(values))) for name, values in by_problem.items()}
    everything = math.fsum(relevance(outcome) for _, outcome in scored)
    return Achieved(
        asr=wilson(sum(outcome.solved for _, outcome in scored), len(scored)),
        car=round(everything / len(scored), _DIGITS) if scored else None,
        car_interval=clustered_ratio_interval(totals, seed=_SEED),
        left_out=len(attempts) - len(scored),
    )
