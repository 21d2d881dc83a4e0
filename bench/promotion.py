"""Who becomes champion by chance, and who by being better: our rule beside those of two other subnets.

A race is played many times over in a model of agents: a problem has a difficulty that all agents meet, an
agent has an ability, and solves a problem with the chance that the two give (the Rasch model); what is solved
earns the coefficient of a grade. All rules decide the same races, drawn from one seed. The other subnets' are

- subnet 15's: the challenger's mean must be above the champion's by a fixed margin (theirs is closed; 3
  points, one problem of their 30, is what one more problem solved is worth);
- subnet 120's: more than 0.03 better in at least one environment, and at least 0.98 of the champion's in each
  other one. Three environments here, of as many problems each.

The champion is a day old, so that our margin is what it is when the next race ends. The error behind a figure
is twice the standard error of a share from so many races.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from arena.promotion import holm, margin_at, sign_flip
from arena.rules import PromotionRules
from bench.figures import Figure, main
from judge.coefficient import coefficient

PROBLEMS = (30, 60, 120)
ENVIRONMENTS = 3
FIXED_MARGIN = 0.03
BETTER, NOT_WORSE = 0.03, 0.98
AGE_H = 24.0
CHALLENGERS = 3
"""In a race of equals; the more there are, the likelier is one of them lucky."""
GAIN = 0.10
"""What a better agent gains in the share of problems solved."""
FALSE_GOAL = 0.05
_UNIT = 10**9
_RULES = PromotionRules()
_GRADES = np.array([coefficient(g) for g in (0.5, 0.7, 0.8, 0.9)])
_GRADE_SHARES = (0.1, 0.2, 0.3, 0.4)

Scores = npt.NDArray[np.float64]
"""Scores by agent (the champion first) and problem."""
Rule = Callable[[Scores, str], bool]
"""Whether anybody is promoted in a race; the seed is the race's."""


def measure(quick: bool) -> Sequence[Figure]:
    """Rates of promotion; those of equal agents are false."""
    races = 1000 if quick else 10_000
    rules: dict[str, Rule] = {
        "ours": _ours,
        "subnet 15": _fixed,
        "subnet 120": _environments,
    }
    ability = _ability(GAIN)
    figures: list[Figure] = []
    for problems in PROBLEMS:
        rng = np.random.default_rng(20_260_601 + problems)
        equal = [_race(rng, problems, [0.0] * CHALLENGERS) for _ in range(races)]
        single = [_race(rng, problems, [0.0]) for _ in range(races)]
        better = [_race(rng, problems, [ability]) for _ in range(races)]
        for what, played, goal in (
            (f"{CHALLENGERS} equal challengers, any promoted", equal, 100 * FALSE_GOAL),
            ("1 equal challenger, promoted", single, 100 * FALSE_GOAL),
            (f"1 better by {100 * GAIN:.0f} points, promoted", better, None),
        ):
            rates = {name: _rate(rule, played) for name, rule in rules.items()}
            for name, rate in rates.items():
                ours = name == "ours"
                error = 200 * math.sqrt(max(rate * (1 - rate), 1 / races) / races)
                figures.append(
                    Figure(
                        f"{problems} problems, {what}: {name} (±{error:.1f})",
                        100 * rate,
                        "%",
                        baseline=None if ours else 100 * rates["ours"],
                        goal=goal if ours else None,
                    )
                )
    return figures


def _race(rng: np.random.Generator, problems: int, abilities: Sequence[float]) -> Scores:
    difficulty = rng.normal(0.0, 1.5, problems)
    ability = np.array([0.0, *abilities])
    chance = 1 / (1 + np.exp(difficulty[None, :] - ability[:, None]))
    solved = rng.random(chance.shape) < chance
    grades: Scores = rng.choice(_GRADES, p=_GRADE_SHARES, size=chance.shape)
    earned: Scores = np.where(solved, grades, 0.0)
    return earned


def _ability(gain: float) -> float:
    """The ability that solves `gain` more of all problems than an ability of 0, which solves half."""
    difficulty = np.random.default_rng(1).normal(0.0, 1.5, 200_000)
    low, high = 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        reached = float(np.mean(1 / (1 + np.exp(difficulty - middle)))) >= 0.5 + gain
        low, high = (low, middle) if reached else (middle, high)
    return low


def _rate(rule: Rule, races: Sequence[Scores]) -> float:
    return sum(rule(scores, str(number)) for number, scores in enumerate(races)) / len(races)


def _ours(scores: Scores, seed: str) -> bool:
    rules = _RULES
    whole = np.rint(scores * _UNIT).astype(np.int64)
    gains = whole[1:] - whole[0]
    needed = round(margin_at(AGE_H, rules) * _UNIT) * scores.shape[1]
    if not (gains.sum(axis=1) >= needed).any():
        return False  # the margin alone decides: no need to draw signs
    tests = [
        sign_flip(g, exact_up_to=rules.exact_up_to, draws=rules.draws, seed=f"{seed}:{c}")
        for c, g in enumerate(gains)
    ]
    adjusted = holm([test.p_value for test in tests])
    return any(g.sum() >= needed and p < rules.alpha for g, p in zip(gains, adjusted, strict=True))


def _fixed(scores: Scores, _: str) -> bool:
    means = scores.mean(axis=1)
    return bool((means[1:] >= means[0] + FIXED_MARGIN).any())


def _environments(scores: Scores, _: str) -> bool:
    means = scores.reshape(scores.shape[0], ENVIRONMENTS, -1).mean(axis=2)
    better = means[1:] > means[0] + BETTER
    not_worse = means[1:] >= NOT_WORSE * means[0]
    return bool((better.any(axis=1) & (better | not_worse).all(axis=1)).any())


if __name__ == "__main__":
    main(measure)
