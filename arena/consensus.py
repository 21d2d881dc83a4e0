"""One outcome from what several validators say of the same race: stake-weighted medians and a vote. Pure.

The one thing to know: whoever holds less than half of the stake decides nothing. Liars together below half
of the stake that scored an agent cannot move its score outside what the others gave it; those below half of
all stake that takes part cannot crown anybody the others do not, nor change what they agree on.

The median is the lower weighted one: the smallest value that, with all below it, has half of the stake. Of
several numbers at once (a score for each problem, say) a median would not have these properties for their
mean; so each validator's own score of an agent is one number here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar


class Key(NamedTuple):
    """What an agent is known by to every validator: ids of submissions are each validator's own."""

    hotkey: str
    source_sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one validator says of a race. `stake` is in whole units, above zero."""

    validator: str
    stake: int
    scores: Mapping[Key, float]
    """Of every agent that finished."""
    champion: Key | None
    """Who holds the top after the race."""
    credits: Mapping[str, int]
    """Traces accepted into the corpus, by hotkey."""


@dataclass(frozen=True, slots=True)
class Combined:
    """What they say together."""

    scores: Mapping[Key, float]
    """Of the agents that more than half of the stake scored."""
    champion: Key | None
    decided: bool
    """Whether more than half of the stake names this champion, which may be nobody."""
    credits: Mapping[str, int]


V = TypeVar("V", int, float)


def weighted_median(values: Iterable[tuple[V, int]]) -> V:
    """The lower weighted median of values with their weights. Raises ValueError when nothing has weight."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    if total <= 0:
        raise ValueError("without weight there is no median")
    below = 0
    for value, weight in ordered:
        below += weight
        if 2 * below >= total:
            return value
    raise AssertionError("unreachable")


def combine(reports: Sequence[Report]) -> Combined:
    """Combine the reports of at least one validator. Raises ValueError on stakes that are not above zero,
    and on two reports of one validator.
    """
    if len({report.validator for report in reports}) != len(reports):
        raise ValueError("a validator reports once")
    if not reports or any(report.stake <= 0 for report in reports):
        raise ValueError("reports need a stake above zero")
    total = sum(report.stake for report in reports)
    agents = sorted({agent for report in reports for agent in report.scores})
    scores: dict[Key, float] = {}
    for agent in agents:
        given = [(r.scores[agent], r.stake) for r in reports if agent in r.scores]
        if 2 * sum(stake for _, stake in given) > total:
            scores[agent] = weighted_median(given)
    votes: Counter[Key | None] = Counter()
    for report in reports:
        votes[report.champion] += report.stake
    champion = next((key for key, stake in votes.items() if 2 * stake > total), None)
    hotkeys = sorted({hotkey for report in reports for hotkey in report.credits})
    credits = {h: weighted_median((r.credits.get(h, 0), r.stake) for r in reports) for h in hotkeys}
    return Combined(
        scores=scores,
        champion=champion,
        decided=any(2 * stake > total for stake in votes.values()),
        credits={hotkey: count for hotkey, count in credits.items() if count},
    )
