"""From a settled race to weights: integer units that always add up to 65,535.

The chain takes the stake-weighted median over validators. A validator whose bytes differ from the others'
moves the median for everybody, so this is integer arithmetic from end to end, and no order of a dictionary
reaches the result. Whatever a bucket cannot pay out, burns: a champion that is missing, a tail with nobody
in it, credit above the cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from arena.rules import PayoutRules, exact

TOTAL_UNITS = 65_535
"""The chain's weights are u16."""

_UNIT = 10**9
"""Scores are ranked in integers of 1e-9, so that equal means never differ by how they were summed."""


@dataclass(frozen=True, slots=True)
class Paid:
    """What one hotkey gets, in units, by bucket."""

    champion: int = 0
    tail: int = 0
    trace_credit: int = 0

    @property
    def total(self) -> int:
        """All its units."""
        return self.champion + self.tail + self.trace_credit


@dataclass(frozen=True, slots=True)
class Payout:
    """Units by hotkey (sorted, none of them zero) and the units that burn. They add up to `TOTAL_UNITS`."""

    paid: Mapping[str, Paid]
    burn: int

    @property
    def units(self) -> dict[str, int]:
        """All units of each hotkey."""
        return {hotkey: paid.total for hotkey, paid in self.paid.items()}


def pay(
    *, scores: Mapping[str, float], champion: str | None, credits: Mapping[str, int], rules: PayoutRules
) -> Payout:
    """Divide the weights of one race.

    `scores` are the race scores of all finishers by hotkey (its best agent's), the champion's among them;
    `champion` is who holds the top after the race; `credits` counts the traces accepted into the corpus by
    hotkey. Raises ValueError on negative scores or credits.
    """
    if any(s < 0 for s in scores.values()) or any(c < 0 for c in credits.values()):
        raise ValueError("scores and trace credits cannot be negative")
    buckets = apportion(
        TOTAL_UNITS,
        {
            "champion": exact(rules.champion),
            "tail": exact(rules.tail),
            "trace_credit": exact(rules.trace_credit),
            "burn": exact(rules.burn),
        },
    )
    top = {} if champion is None else {champion: buckets["champion"]}
    tail = apportion(buckets["tail"], tail_weights({h: s for h, s in scores.items() if h != champion}))
    credit = _credit(buckets["trace_credit"], credits, exact(rules.credit_cap))
    paid = {
        hotkey: Paid(top.get(hotkey, 0), tail.get(hotkey, 0), credit.get(hotkey, 0))
        for hotkey in sorted({*top, *tail, *credit})
    }
    paid = {hotkey: units for hotkey, units in paid.items() if units.total}
    return Payout(paid, TOTAL_UNITS - sum(p.total for p in paid.values()))


def tail_weights(scores: Mapping[str, float]) -> dict[str, Fraction]:
    """Weights of the better half of `scores` (rounded up): K for the first, then one less a rank, down to 1.

    Equal scores share the weights of the ranks they take together, so that no tie is broken by a name. A
    score of zero gets nothing.
    """
    ranked = sorted(((round(s * _UNIT), h) for h, s in scores.items()), reverse=True)
    paid_ranks = -(-len(ranked) // 2)
    weights: dict[str, Fraction] = {}
    rank = 0
    for score, group in groupby(ranked, key=lambda entry: entry[0]):
        hotkeys = [hotkey for _, hotkey in group]
        together = sum(max(0, paid_ranks - r) for r in range(rank, rank + len(hotkeys)))
        rank += len(hotkeys)
        if score > 0 and together:
            weights.update(dict.fromkeys(hotkeys, Fraction(together, len(hotkeys))))
    return weights


def apportion(units: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Divide `units` in proportion to `weights` by largest remainder; equal remainders go by name.

    Every part is within one unit of its exact share, and the parts add up to `units`; without weights there
    are no parts.
    """
    total = sum(weights.values(), Fraction(0))
    if total == 0:
        return {}
    shares = {name: units * weight / total for name, weight in sorted(weights.items())}
    parts = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (parts[name] - shares[name], name))
    for name in by_remainder[: units - sum(parts.values())]:
        parts[name] += 1
    return parts


def _credit(units: int, credits: Mapping[str, int], cap: Fraction) -> dict[str, int]:
    parts = apportion(units, {hotkey: Fraction(count) for hotkey, count in credits.items()})
    most = int(units * cap)
    return {hotkey: min(part, most) for hotkey, part in parts.items()}
