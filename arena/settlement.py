"""A race settled: scores, promotion and payout as one value, from stored inputs alone.

The same inputs give the same bytes on every validator and at every time: no clock, no database, no
randomness but the seed that the draw made. Times of processing are kept apart from it, in the race's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena.payout import Payout, pay
from arena.promotion import Promotion, champion_withdrawn, decide
from arena.rules import Rules
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


@dataclass(frozen=True, slots=True)
class Settlement:
    """A race that could be decided."""

    number: int
    rules_hash: str
    entrants: tuple[Finisher, ...]
    scores: Scores
    promotion: Promotion
    payout: Payout

    def to_json(self) -> dict[str, Any]:
        """The settlement as a JSON object; `canonical_json` of it is what validators compare."""
        return {
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
    return Settlement(
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
