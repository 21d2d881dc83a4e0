"""Yuma consensus written a second time, from its description, to check the first one against.

Dense matrices of exact fractions in float's place; the median is found by trying every candidate. It follows
docs/consensus.md of the Subtensor repository: the consensus weight of a miner is the largest weight that a
share of at least kappa of the stake supports; weights above it are cut; ranks are stake-weighted sums of cut
weights; bonds are an exponential moving average of column-normalised stake times cut weight; dividends are
bonds times incentive.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Matrix = list[list[Fraction]]
NOTHING = Fraction(0)


@dataclass(frozen=True)
class Expected:
    """By uid, as shares of one."""

    consensus: list[Fraction]
    incentive: list[Fraction]
    dividends: list[Fraction]
    validator_trust: list[Fraction]
    bonds: Matrix
    """Each column's largest is one."""


def expected(
    *,
    stake: list[int],
    voting: list[bool],
    weights: list[list[int]],
    bonds: list[list[int]],
    kappa: Fraction,
    moving_average: Fraction,
    penalty: Fraction,
) -> Expected:
    """What an epoch of validators `voting` must yield; no masks but of weights on oneself."""
    everyone = range(len(stake))
    support = shares([Fraction(s) if v else NOTHING for s, v in zip(stake, voting, strict=True)])
    given = [
        shares([Fraction(weights[i][j]) if voting[i] and i != j else NOTHING for j in everyone])
        for i in everyone
    ]
    consensus = [supported([row[j] for row in given], support, kappa) for j in everyone]
    cut = [[min(row[j], consensus[j]) for j in everyone] for row in given]
    incentive = shares([sum((support[i] * cut[i][j] for i in everyone), NOTHING) for j in everyone])
    counted = [[(1 - penalty) * given[i][j] + penalty * cut[i][j] for j in everyone] for i in everyone]
    bought = by_column(shares, [[support[i] * counted[i][j] for j in everyone] for i in everyone])
    held = by_column(shares, [[Fraction(b) for b in row] for row in bonds])
    moved = by_column(
        shares,
        [
            [(1 - moving_average) * bought[i][j] + moving_average * held[i][j] for j in everyone]
            for i in everyone
        ],
    )
    return Expected(
        consensus=consensus,
        incentive=incentive,
        dividends=shares([sum((moved[i][j] * incentive[j] for j in everyone), NOTHING) for i in everyone]),
        validator_trust=[sum(row, NOTHING) for row in cut],
        bonds=by_column(lambda column: [b / max(column) if max(column) else NOTHING for b in column], moved),
    )


def supported(offers: list[Fraction], support: list[Fraction], kappa: Fraction) -> Fraction:
    """The largest offer that voters with at least `kappa` of the support make or exceed."""

    def behind(offer: Fraction) -> Fraction:
        return sum((s for o, s in zip(offers, support, strict=True) if s and o >= offer), NOTHING)

    return max((o for o, s in zip(offers, support, strict=True) if s and behind(o) >= kappa), default=NOTHING)


def margin(offers: list[Fraction], support: list[Fraction], kappa: Fraction) -> Fraction:
    """How close the support of any offer comes to kappa: where it is nil, rounding decides the median."""
    ordered = sorted(zip(offers, support, strict=True), reverse=True)
    behind, closest = NOTHING, abs(kappa)
    for _, part in ordered:
        behind += part
        closest = min(closest, abs(behind - kappa))
    return closest


def shares(values: list[Fraction]) -> list[Fraction]:
    """Values divided by their sum."""
    total = sum(values, NOTHING)
    return [v / total if total else NOTHING for v in values]


def by_column(change, matrix: Matrix) -> Matrix:  # type: ignore[no-untyped-def]
    """A matrix whose columns were each changed."""
    columns = [change([row[j] for row in matrix]) for j in range(len(matrix))]
    return [[column[i] for column in columns] for i in range(len(matrix))]
