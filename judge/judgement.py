"""What a judge says of one trace: a judgement, or that it could not judge.

`Unjudged` carries a reason and no number: a judge's outage can not become a grade by any path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from judge.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of an episode's reasoning that decided a gate: `text` is `spoken[start:end]` of step `step`."""

    gate: str
    step: int
    start: int
    end: int
    text: str
    note: str

    def to_json(self) -> dict[str, Any]:
        """The citation as a JSON object."""
        return {
            "gate": self.gate,
            "step": self.step,
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Abstention:
    """A member of a panel that gave no grade, and why."""

    judge: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The abstention as a JSON object."""
        return {"judge": self.judge, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A grade in [0, 1], the last gate passed, why, and what in the episode decided it.

    `votes` holds the grade of each member of a panel (one vote for a single judge), `disagreement` their
    spread (highest minus lowest). `rubric` and `judge` say by which rubric and by whom.
    """

    grade: float
    gate: str
    rationale: str
    citations: tuple[Citation, ...]
    votes: tuple[float, ...]
    disagreement: float
    rubric: str
    judge: str
    abstentions: tuple[Abstention, ...] = ()
    contradicted: bool = False
    """An auditor differed by two gates or more from the first answer; others were then asked too."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The judge could not answer. Never a grade; the trace waits for another try or another judge."""

    reason: str


class Judge(Protocol):
    """Anything that grades evidence. `name` and `rubric` are stored with what it says."""

    @property
    def name(self) -> str:
        """Who judges, with its version."""

    @property
    def rubric(self) -> str:
        """`Rubric.id` of the rubric it grades by."""

    async def judge(self, evidence: Evidence) -> Judgement | Unjudged:
        """Grade one episode's evidence."""
