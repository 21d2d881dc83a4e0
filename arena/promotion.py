"""Who is champion after a race: a function of paired scores, and of nothing else.

Two validators with the same scores must crown the same agent, so nothing here depends on the order of a
dictionary, on rounding of sums, or on the version of a random generator: scores become integers of 1e-9
first, sums are exact, and the drawn signs are the bits of SHAKE-256 of a seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arena.rules import PromotionRules

_UNIT = 10**9
"""Scores are compared in integers of 1e-9; sums of thousands of them stay far inside 64 bits."""

_SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
"""The eight signs that the bits of each byte stand for, the highest bit first."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenger against the champion, over the problems both have a score for."""

    challenger: str
    problems: int
    differing: int
    """Problems on which the two scores differ; the others cannot speak for or against."""
    wins: int
    losses: int
    mean_gain: float
    p_value: float
    """One-sided: how often random signs give the challenger at least this gain."""
    p_adjusted: float
    """After Holm's correction over all challengers of the race."""
    sign_vectors: int
    """How many were looked at."""
    exact: bool
    """Whether those were all there are."""
    reaches_margin: bool
    significant: bool

    @property
    def passes(self) -> bool:
        """Whether this challenger may be promoted."""
        return self.reaches_margin and self.significant


@dataclass(frozen=True, slots=True)
class Promotion:
    """The decision with everything that led to it."""

    champion_before: str | None
    champion: str | None
    """Who holds the top from now on; None when nobody does."""
    promoted: bool
    uncontested: bool
    """There was no champion to beat: the best was crowned without a test."""
    margin: float
    alpha: float
    challenges: tuple[Challenge, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The result of a one-sided paired sign-flip test."""

    p_value: float
    sign_vectors: int
    exact: bool


def margin_at(age_h: float, rules: PromotionRules) -> float:
    """The mean gain that a champion of `age_h` hours must be beaten by. Rounded to 1e-9."""
    if age_h < 0:
        raise ValueError(f"a champion cannot be {age_h} hours old")
    decayed: float = rules.margin * 0.5 ** (age_h / rules.margin_half_life_h)
    return round(max(rules.margin_floor, decayed), 9)


def decide(
    *,
    scores: Mapping[str, Mapping[str, float]],
    champion: str | None,
    challengers: Sequence[str],
    champion_age_h: float,
    rules: PromotionRules,
    seed: str,
) -> Promotion:
    """Decide the promotion of a race.

    `scores` holds every entrant's score in [0, 1] by problem; all must cover the same problems, because every
    comparison is paired. `challengers` is in order of priority (earliest first): of two with the same gain
    and the same p-value, the earlier is promoted. `seed` makes the drawn signs; it must not be known before
    the race. Raises ValueError when the scores do not pair or there are none.
    """
    entrants = ([] if champion is None else [champion]) + list(challengers)
    problems = _paired_problems(scores, entrants)
    margin = margin_at(champion_age_h, rules)
    if champion is None:
        return _crown_best(scores, challengers, margin, rules)
    reigning = _integers(scores[champion], problems)
    gains = [_integers(scores[c], problems) - reigning for c in challengers]
    tests = [
        sign_flip(g, exact_up_to=rules.exact_up_to, draws=rules.draws, seed=f"{seed}:{c}")
        for c, g in zip(challengers, gains, strict=True)
    ]
    adjusted = holm([t.p_value for t in tests])
    challenges = tuple(
        Challenge(
            challenger=challenger,
            problems=len(problems),
            differing=int(np.count_nonzero(gain)),
            wins=int(np.count_nonzero(gain > 0)),
            losses=int(np.count_nonzero(gain < 0)),
            mean_gain=int(gain.sum()) / (len(problems) * _UNIT),
            p_value=test.p_value,
            p_adjusted=p_adjusted,
            sign_vectors=test.sign_vectors,
            exact=test.exact,
            reaches_margin=int(gain.sum()) >= round(margin * _UNIT) * len(problems),
            significant=p_adjusted < rules.alpha,
        )
        for challenger, gain, test, p_adjusted in zip(challengers, gains, tests, adjusted, strict=True)
    )
    winner = min((c for c in challenges if c.passes), key=lambda c: (-c.mean_gain, c.p_value), default=None)
    return Promotion(
        champion_before=champion,
        champion=champion if winner is None else winner.challenger,
        promoted=winner is not None,
        uncontested=False,
        margin=margin,
        alpha=rules.alpha,
        challenges=challenges,
        reason=_reason(winner, challenges),
    )


def champion_withdrawn(champion: str, *, champion_age_h: float, rules: PromotionRules) -> Promotion:
    """The decision of a race whose champion has no score: nobody beat it, so nobody is promoted."""
    return Promotion(
        champion_before=champion,
        champion=champion,
        promoted=False,
        uncontested=False,
        margin=margin_at(champion_age_h, rules),
        alpha=rules.alpha,
        challenges=(),
        reason="the champion was withdrawn and is not paid: nobody can be compared with it",
    )


def sign_flip(
    gains: Sequence[int] | npt.NDArray[np.int64], *, exact_up_to: int, draws: int, seed: str
) -> SignFlip:
    """One-sided paired sign-flip (Fisher-Pitman) test that the mean of `gains` is above zero.

    Under the hypothesis that two agents are alike each gain could as well have had the other sign; the
    p-value is the share of sign vectors whose sum is at least the one seen. Problems without a difference
    change no sum and are dropped. Up to `exact_up_to` others every vector counts; beyond that `draws` random
    ones do, with the observed one added to both counts, so that p is never zero (Phipson and Smyth, 2010,
    "Permutation P-values should never be zero").
    """
    differing = np.asarray(gains, dtype=np.int64)
    differing = differing[differing != 0]
    observed = int(differing.sum())
    if len(differing) <= exact_up_to:
        # Every sum is one of the first half's and one of the second's, so no list of all of them is needed.
        half, others = _all_sums(differing[::2]), np.sort(_all_sums(differing[1::2]))
        short = int(np.searchsorted(others, observed - half, side="left").sum())
        vectors = len(half) * len(others)
        return SignFlip((vectors - short) / vectors, vectors, exact=True)
    row_bytes = -(-len(differing) // 8)
    stream = hashlib.shake_256(seed.encode()).digest(draws * row_bytes)
    rows = np.frombuffer(stream, dtype=np.uint8).reshape(draws, row_bytes)
    sums, picked = np.zeros(draws, dtype=np.int64), np.empty(draws, dtype=np.int64)
    for column in range(row_bytes):  # a byte signs eight gains, in one of 256 ways
        of_byte = _SIGNS @ _padded(differing[8 * column : 8 * column + 8])
        sums += np.take(of_byte, rows[:, column], out=picked, mode="clip")
    reached = int(np.count_nonzero(sums >= observed))
    return SignFlip((reached + 1) / (draws + 1), draws, exact=False)


def _all_sums(gains: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    sums = np.zeros(1, dtype=np.int64)
    for gain in gains:
        sums = np.concatenate((sums + gain, sums - gain))
    return sums


def _padded(gains: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.pad(gains, (0, 8 - len(gains)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down correction (Holm, 1979): adjusted p-values in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


def _paired_problems(scores: Mapping[str, Mapping[str, float]], entrants: Sequence[str]) -> list[str]:
    if len(set(entrants)) != len(entrants):
        raise ValueError("an agent cannot be in a race twice, nor challenge itself")
    if not entrants:
        raise ValueError("a race without entrants decides nothing")
    problems = sorted(scores[entrants[0]])
    if not problems:
        raise ValueError("a race without scored problems decides nothing; it must be void")
    for entrant in entrants[1:]:
        if sorted(scores[entrant]) != problems:
            raise ValueError(f"{entrant} was not scored on the same problems as {entrants[0]}")
    return problems


def _integers(scores: Mapping[str, float], problems: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.array([round(scores[p] * _UNIT) for p in problems], dtype=np.int64)


def _crown_best(
    scores: Mapping[str, Mapping[str, float]],
    challengers: Sequence[str],
    margin: float,
    rules: PromotionRules,
) -> Promotion:
    totals = [sum(round(s * _UNIT) for s in scores[c].values()) for c in challengers]
    best = max(range(len(challengers)), key=lambda i: (totals[i], -i))
    crowned = totals[best] > 0
    return Promotion(
        champion_before=None,
        champion=challengers[best] if crowned else None,
        promoted=crowned,
        uncontested=crowned,
        margin=margin,
        alpha=rules.alpha,
        challenges=(),
        reason="uncontested: there was no champion, and this is the best score"
        if crowned
        else "nobody is champion: no challenger scored above zero",
    )


def _reason(winner: Challenge | None, challenges: Sequence[Challenge]) -> str:
    if winner is not None:
        return f"gains {winner.mean_gain:.4f} on average, adjusted p = {winner.p_adjusted:.4f}"
    if not challenges:
        return "the champion stays: nobody challenged"
    if any(c.reaches_margin for c in challenges):
        return "the champion stays: the gain could be chance"
    return "the champion stays: no challenger gains the margin"
