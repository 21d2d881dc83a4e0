"""A race settled: scores, promotion and payout as one value, from stored inputs alone.

The same inputs give the same bytes on every validator and at every time: no clock, no database, no
randomness but the seed that the draw made. Times of processing are kept apart from it, in the race's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from arena.consensus import Combined, Key, Report, combine
from arena.payout import Payout, pay
from arena.promotion import Promotion, champion_withdrawn, decide
from arena.rules import Rules, exact
from arena.scoring import EpisodeResult, Scores, score_agents
from problems.problem import canonical_json


@dataclass(frozen=True, slots=True)
class Finisher:
    """An entrant of the race. Challengers are given in order of priority, the earliest submission first."""

    agent: str
    hotkey: str
    name: str
    champion: bool


@dataclass(frozen=True, slots=True)
class Together:
    """What other validators say of the race, for a subnet whose rules let them decide together."""

    own: str
    """Our hotkey."""
    stake: int
    """Our own, above zero."""
    total: int
    """That of all validators with a permit, the silent ones included."""
    reports: tuple[Report, ...]
    """Of the others, of this very race."""
    left_out: Mapping[str, str]
    """Why the results of the others do not count, by hotkey."""


@dataclass(frozen=True, slots=True)
class RaceInputs:
    """Everything a settlement depends on."""

    number: int
    rules: Rules
    seed: str
    """What the drawn signs of the promotion test come from: the hash of the draw's block."""
    entrants: tuple[Finisher, ...]
    champion_age_h: float
    """From the boundary of the race that crowned it to the boundary of this one."""
    results: tuple[EpisodeResult, ...]
    credits: Mapping[str, int]
    """Traces accepted into the corpus by hotkey, over all of the race's episodes."""
    rules_hash: str | None = None
    """As it was stored when the race opened; None: that of `rules`. A later version of the program may know
    constants that the race was not opened with, and must not give it another hash."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 (hex) by agent: with the hotkey, what other validators know it by."""
    together: Together | None = None
    """None: this validator decides by itself."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """A race that could be decided."""

    number: int
    rules_hash: str
    entrants: tuple[Finisher, ...]
    scores: Scores
    promotion: Promotion
    payout: Payout
    consensus: Mapping[str, Any] | None = None
    """How it was decided with others; None when it was not."""

    def to_json(self) -> dict[str, Any]:
        """The settlement as a JSON object; `canonical_json` of it is what validators compare."""
        found: dict[str, Any] = {
            "number": self.number,
            "rules_hash": self.rules_hash,
            "problems": {
                "counted": list(self.scores.counted),
                "left_out": dict(self.scores.left_out),
            },
            "agents": [
                {
                    "agent": e.agent,
                    "hotkey": e.hotkey,
                    "name": e.name,
                    "champion": e.champion,
                    "solved": score.solved,
                    "judge": score.judge,
                    "agency": score.agency,
                    "score": score.score,
                    "n": len(self.scores.counted),
                    "left_out": len(self.scores.left_out),
                    "by_problem": dict(score.by_problem),
                    "prompt_tokens": score.prompt_tokens,
                    "completion_tokens": score.completion_tokens,
                }
                for e in self.entrants
                if (score := self.scores.agents.get(e.agent)) is not None
            ],
            "withdrawn": [
                asdict(e) | {"reason": self.scores.withdrawn[e.agent]}
                for e in self.entrants
                if e.agent in self.scores.withdrawn
            ],
            "promotion": asdict(self.promotion)
            | {"challenges": [asdict(c) | {"passes": c.passes} for c in self.promotion.challenges]},
            "payout": {
                "units": self.payout.units,
                "burn": self.payout.burn,
                "by_bucket": {hotkey: asdict(paid) for hotkey, paid in self.payout.paid.items()},
            },
        }
        return found if self.consensus is None else found | {"consensus": dict(self.consensus)}

    def to_bytes(self) -> bytes:
        """The settlement's canonical bytes."""
        return canonical_json(self.to_json())


@dataclass(frozen=True, slots=True)
class Voided:
    """A race that we could not run fairly, and why. It moves no weights and costs nobody their cooldown."""

    reason: str
    left_out: Mapping[str, str]


def settle(inputs: RaceInputs) -> Settlement | Voided:
    """Settle a race. Raises IncompleteResults when an episode is missing: a race settles only when whole."""
    rules = inputs.rules
    entrants = inputs.entrants
    scores = score_agents(inputs.results, [e.agent for e in entrants], rules)
    void = void_reason(scores, rules.void_share)
    if void is not None:
        return Voided(void, scores.left_out)
    promotion = _promotion(inputs, scores)
    # A champion that was withdrawn is not paid, or never being scored would be a way to stay one.
    hotkeys = {e.agent: e.hotkey for e in entrants if e.agent not in scores.withdrawn}
    alone = Settlement(
        number=inputs.number,
        rules_hash=inputs.rules_hash or rules.rules_hash,
        entrants=entrants,
        scores=scores,
        promotion=promotion,
        payout=pay(
            scores=_best_by_hotkey(scores, entrants),
            champion=None if promotion.champion is None else hotkeys.get(promotion.champion),
            credits=inputs.credits,
            rules=rules.payout,
        ),
    )
    return alone if inputs.together is None else _decided_together(inputs, alone, inputs.together)


def _decided_together(inputs: RaceInputs, alone: Settlement, together: Together) -> Settlement:
    """The race as the validators decide it together: medians of scores and credits, a vote on the champion.

    Without a quorum of the stake it stays as this validator decided it alone.
    """
    key = {e.agent: Key(e.hotkey, inputs.sources[e.agent]) for e in inputs.entrants}
    promotion = alone.promotion
    own = Report(
        validator=together.own,
        stake=together.stake,
        scores={key[agent]: score.score for agent, score in alone.scores.agents.items()},
        champion=None if promotion.champion is None else key.get(promotion.champion),
        credits=inputs.credits,
    )
    reports = (own, *together.reports)
    stake = sum(report.stake for report in reports)
    quorum = stake >= exact(inputs.rules.consensus_quorum) * together.total
    record: dict[str, Any] = {
        "stake": together.total,
        "taken": {report.validator: report.stake for report in sorted(reports, key=lambda r: r.validator)},
        "left_out": dict(sorted(together.left_out.items())),
        "quorum": quorum,
        "own": {"champion": _holder(own.champion), "promoted": promotion.promoted},
    }
    if not quorum:
        return replace(alone, consensus=record)
    combined = combine(reports)
    promotion, holder = _voted(promotion, combined, key)
    record |= {
        "scores": [
            {"hotkey": agent.hotkey, "source_sha256": agent.source_sha256, "score": score}
            for agent, score in sorted(combined.scores.items())
        ],
        "credits": dict(sorted(combined.credits.items())),
        "champion": _holder(holder),
        "decided": combined.decided,
    }
    best: dict[str, float] = {}
    for agent, score in combined.scores.items():
        best[agent.hotkey] = max(best.get(agent.hotkey, 0.0), score)
    payout = pay(
        scores=best,
        # A champion that nobody could score is not paid.
        champion=holder.hotkey if holder is not None and holder in combined.scores else None,
        credits=combined.credits,
        rules=inputs.rules.payout,
    )
    return replace(alone, promotion=promotion, payout=payout, consensus=record)


def _voted(own: Promotion, combined: Combined, key: Mapping[str, Key]) -> tuple[Promotion, Key | None]:
    """The promotion that the vote makes, and who holds the top by it. Undecided, nobody new does."""
    before = None if own.champion_before is None else key.get(own.champion_before)
    holder = combined.champion if combined.decided else before
    here = next((agent for agent, its in key.items() if its == holder), None)
    if holder == before:
        champion, reason = own.champion_before, "the validators keep the champion"
    elif here is None:
        champion = own.champion_before
        reason = "the validators crowned an agent that did not race here, or nobody"
    else:
        champion, reason = here, "the validators crowned it"
    if not combined.decided:
        reason = "the validators do not agree: nobody new is crowned"
    elif champion == own.champion:
        reason = own.reason
    promoted = champion is not None and champion != own.champion_before
    decided = replace(
        own, champion=champion, promoted=promoted, uncontested=own.uncontested and promoted, reason=reason
    )
    return decided, holder


def _holder(agent: Key | None) -> dict[str, str] | None:
    return None if agent is None else agent._asdict()


def _promotion(inputs: RaceInputs, scores: Scores) -> Promotion:
    champion = next((e.agent for e in inputs.entrants if e.champion), None)
    rules = inputs.rules.promotion
    if champion is not None and champion in scores.withdrawn:
        return champion_withdrawn(champion, champion_age_h=inputs.champion_age_h, rules=rules)
    return decide(
        scores={agent: score.by_problem for agent, score in scores.agents.items()},
        champion=champion,
        challengers=[e.agent for e in inputs.entrants if not e.champion and e.agent in scores.agents],
        champion_age_h=inputs.champion_age_h,
        rules=rules,
        seed=inputs.seed,
    )


def void_reason(scores: Scores, void_share: float) -> str | None:
    """Why a phase cannot be decided, or None when it can."""
    if scores.counted and scores.left_out_share <= void_share:
        return None
    problems = len(scores.counted) + len(scores.left_out)
    return (
        f"{len(scores.left_out)} of {problems} problems could not be scored for everyone, "
        f"more than {void_share:.0%}"
    )


def _best_by_hotkey(scores: Scores, entrants: Sequence[Finisher]) -> dict[str, float]:
    best: dict[str, float] = {}
    for entrant in entrants:
        if entrant.agent in scores.agents:
            best[entrant.hotkey] = max(best.get(entrant.hotkey, 0.0), scores.agents[entrant.agent].score)
    return best
