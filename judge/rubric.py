"""What a grade means: the gates in order, and the grade of the last one passed.

Every judge, by code or by language model, grades against this one definition, and stores its id, which
changes with any change of wording or value. Judgements of different rubrics must not be averaged together.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

MIN_WORKING_TOKENS = 30
"""Completion tokens below which a model call is too short to hold a thought (an "ok", a bare id)."""

NO_GATE = "none"
"""The name that stands where no gate was passed."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: passed or not, in order; `grade` is earned when this gate and all before it are passed."""

    name: str
    grade: float
    question: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """A versioned, ordered set of gates."""

    version: str
    base_grade: float
    """The grade when not even the first gate is passed."""
    gates: tuple[Gate, ...]

    @property
    def sha256(self) -> str:
        """Hash (hex) over everything the rubric says."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def id(self) -> str:
        """Version and hash, as stored with each judgement: `1+<first 12 hex digits>`."""
        return f"{self.version}+{self.sha256[:12]}"

    def grade_after(self, passed: int) -> float:
        """The grade when the first `passed` gates were passed. Raises ValueError for an impossible count."""
        if not 0 <= passed <= len(self.gates):
            raise ValueError(f"rubric {self.version} has {len(self.gates)} gates, not {passed}")
        return self.gates[passed - 1].grade if passed else self.base_grade

    def gate_after(self, passed: int) -> str:
        """The name of the last gate passed, or `NO_GATE`."""
        return self.gates[passed - 1].name if passed else NO_GATE


RUBRIC = Rubric(
    version="1",
    base_grade=0.1,
    gates=(
        Gate(
            "worked",
            0.3,
            f"Did a model take part, with at least one call of {MIN_WORKING_TOKENS} completion tokens?",
        ),
        Gate(
            "analysed",
            0.5,
            "Does reasoning written after a tool result say something of it, not only what to do next?",
        ),
        Gate(
            "cited",
            0.7,
            "Does the reasoning cite specific data (ids, prices, phrases of titles, attribute values) that "
            "stand in the results seen by then, at least two of them and at least one that is not a bare id, "
            "and does this outweigh what it claims against the results?",
        ),
        Gate(
            "compared",
            0.9,
            "Are two candidates from the results set against one another in one passage, with a reason taken "
            "from the results that holds?",
        ),
        Gate(
            "tracked",
            1.0,
            "Are the constraints of the query (prices, services, budget) still checked against the chosen "
            "products where the answer is decided, with the arithmetic done again and right, and without a "
            "claim that the results contradict?",
        ),
    ),
)

RUBRICS: dict[str, Rubric] = {RUBRIC.version: RUBRIC}
"""By version. A rubric that has judged anything stays here, so that its judgements can be read and given
again; a change is a new version."""


class UnknownRubric(ValueError):
    """There is no rubric of this version."""


def rubric_of(version: str) -> Rubric:
    """The rubric of a version. Raises UnknownRubric."""
    if version not in RUBRICS:
        raise UnknownRubric(f"there is no rubric {version!r}; there are {', '.join(sorted(RUBRICS))}")
    return RUBRICS[version]
