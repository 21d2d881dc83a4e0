"""How far a judge agrees with labels: agreement, kappa, error, gates and abstentions, with intervals. Pure.

The one thing to know: all figures are functions of one table, which counts cases by the gates that the label
says were passed and the gates that the judge says were passed, with a last column for no answer. A case
without an answer is in no figure but `abstained`, and every figure stands beside the number of cases it
leaves out. Drawing cases with replacement is drawing such a table from a multinomial distribution; that is
how the intervals are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge.rubric import Rubric

Table = NDArray[np.int64]
"""Shape (levels, levels + 1): row by label, column by judge, the last column for no answer."""

DRAWS = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rated:
    """A case: the number of gates passed by its label, and by the judge; None when it gave no answer."""

    label: int
    said: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its percentile bootstrap interval. All are None where the figure is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class GateConfusion:
    """How often the judge said "passed" of one gate, against the label; answered cases only."""

    gate: str
    tp: int
    fp: int
    fn: int
    tn: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge's figures over labelled cases. `exact`, `kappa` and `error` leave out what was not answered."""

    n: int
    unanswered: int
    exact: Estimate
    """Share of cases with the label's grade."""
    kappa: Estimate
    """Quadratic-weighted kappa over the ordered grades."""
    error: Estimate
    """Mean absolute difference of the grades."""
    abstained: Estimate
    """Share of cases without an answer."""
    gates: tuple[GateConfusion, ...]

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return asdict(self)


def agreement(rated: Iterable[Rated], rubric: Rubric, *, seed: int, draws: int = DRAWS) -> Agreement:
    """All figures over `rated`, by the gates and grades of `rubric`. `seed` is that of the intervals.

    Raises ValueError for a number of gates that the rubric does not have.
    """
    levels = len(rubric.gates) + 1
    counts = table(rated, levels)
    grades = [rubric.grade_after(passed) for passed in range(levels)]

    def estimate(figure: Callable[[Table], float | None]) -> Estimate:
        return interval(counts, figure, seed=seed, draws=draws)

    return Agreement(
        n=int(counts.sum()),
        unanswered=int(counts[:, -1].sum()),
        exact=estimate(exact_agreement),
        kappa=estimate(weighted_kappa),
        error=estimate(lambda drawn: mean_absolute_error(drawn, grades)),
        abstained=estimate(abstention_share),
        gates=tuple(
            gate_confusion(counts, gate.name, passed) for passed, gate in enumerate(rubric.gates, start=1)
        ),
    )


def table(rated: Iterable[Rated], levels: int) -> Table:
    """The table of `rated`. Raises ValueError for a count of gates outside 0 to `levels` - 1."""
    counts = np.zeros((levels, levels + 1), dtype=np.int64)
    for one in rated:
        said = levels if one.said is None else one.said
        if not 0 <= one.label < levels or (one.said is not None and not 0 <= said < levels):
            raise ValueError(
                f"gates passed lie in 0 to {levels - 1}, not label {one.label}, judge {one.said}"
            )
        counts[one.label, said] += 1
    return counts


def exact_agreement(counts: Table) -> float | None:
    """Share of the answered cases on which judge and label agree; None with no answer."""
    answered = counts[:, :-1]
    total = answered.sum()
    return float(np.trace(answered) / total) if total else None


def weighted_kappa(counts: Table) -> float | None:
    """Quadratic-weighted kappa of the answered cases (Cohen 1968, Psychological Bulletin 70:213).

    1 is full agreement, 0 what chance gives with the same marginal counts. Disagreement weighs by the square
    of the difference in gates passed. None when chance allows no disagreement: all labels and answers alike.
    """
    answered = counts[:, :-1].astype(np.float64)
    total = answered.sum()
    if not total:
        return None
    levels = np.arange(len(answered))
    weights = (levels[:, None] - levels[None, :]) ** 2
    by_chance = np.outer(answered.sum(axis=1), answered.sum(axis=0)) / total
    expected = float((weights * by_chance).sum())
    return 1.0 - float((weights * answered).sum()) / expected if expected else None


def mean_absolute_error(counts: Table, grades: Sequence[float]) -> float | None:
    """Mean of |judge's grade - label's grade| over the answered cases; None with no answer."""
    answered = counts[:, :-1]
    total = answered.sum()
    values = np.asarray(grades, dtype=np.float64)
    apart = np.abs(values[:, None] - values[None, :])
    return float((apart * answered).sum() / total) if total else None


def abstention_share(counts: Table) -> float | None:
    """Share of all cases that got no answer; None with no case."""
    total = counts.sum()
    return float(counts[:, -1].sum() / total) if total else None


def gate_confusion(counts: Table, gate: str, passed: int) -> GateConfusion:
    """Of the answered cases, how label and judge see the gate that the `passed`-th level passes."""
    answered = counts[:, :-1]
    return GateConfusion(
        gate,
        tp=int(answered[passed:, passed:].sum()),
        fp=int(answered[:passed, passed:].sum()),
        fn=int(answered[passed:, :passed].sum()),
        tn=int(answered[:passed, :passed].sum()),
    )


def share(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Estimate:
    """A share with its Wilson score interval (Wilson 1927, JASA 22:209), which has a width at none and all.

    For what is hoped never to happen: none of 60 is less sure than none of 600. Raises ValueError unless
    0 <= `successes` <= `n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is no share")
    if n == 0:
        return Estimate(None, None, None)
    z2 = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2
    found = successes / n
    centre = (found + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (found * (1 - found) + z2 / (4 * n)) / n) / (1 + z2 / n)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    return Estimate(found, low, 1.0 if successes == n else min(1.0, centre + half))


def interval(
    counts: Table,
    figure: Callable[[Table], float | None],
    *,
    seed: int,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """`figure` of `counts` with its percentile bootstrap interval (Efron 1979, Annals of Statistics 7:1).

    Draws on which the figure is not defined are left out. Where all cases are alike the interval has no
    width, and then says nothing of how many cases there were.
    """
    value = figure(counts)
    if value is None:
        return Estimate(None, None, None)
    total = int(counts.sum())
    chooser = np.random.default_rng(seed)
    drawn = chooser.multinomial(total, (counts / total).ravel(), size=draws)
    found = sorted(x for one in drawn if (x := figure(one.reshape(counts.shape))) is not None)
    if not found:
        return Estimate(value, None, None)
    tail = (1 - confidence) / 2
    last = len(found) - 1
    return Estimate(value, found[math.floor(tail * last)], found[math.ceil((1 - tail) * last)])
