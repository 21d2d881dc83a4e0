"""Scored answers to check the rules against: the scorer must give what the file says, in every row.

A golden file is JSON Lines, one scored answer a line, in the format of subnet 15's published cases: the
problem, the product records it touches, the steps of the answer, the similarity of each pair of titles that
was compared, and the component scores and verdict the production scorer gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from problems.environment import Attempt, AttemptStep, ToolUse
from problems.problem import AnsweredProblem, Problem
from problems.shopping.product import Product
from problems.shopping.scoring import UnscorableProblem, score
from problems.shopping.similarity import PrecomputedSimilarity, UnknownPair

TOLERANCE = 1e-6
"""How far a component may be from the golden one: golden values have six decimals."""


class GoldenFileError(ValueError):
    """The file is not in the golden format; the message names the line."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One value that differs. `component` is `success` for the verdict, `error` when scoring was refused."""

    case_id: str
    component: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """How many cases were scored as the file says, and every value that was not."""

    total: int
    matched: int
    mismatches: tuple[Mismatch, ...]


class _Call(BaseModel):
    name: str
    parameters: dict[str, Any]


class _Step(BaseModel):
    think: str = ""
    tool_call: tuple[_Call, ...] = ()
    response: str = ""
    timestamp: float | None = None


class _Case(BaseModel):
    model_config = ConfigDict(extra="ignore")

    case_id: str
    category: Literal["product", "shop", "voucher"]
    problem: dict[str, Any]
    catalog: tuple[Product, ...]
    steps: tuple[_Step, ...]
    title_similarity: dict[str, float]
    expected: dict[str, float]
    success: bool

    def answered(self) -> AnsweredProblem:
        shown = Problem(
            problem_id=self.case_id,
            environment="shopping",
            category=self.category,
            query=str(self.problem.get("query", "")),
        )
        return AnsweredProblem(problem=shown, answer=self.problem, leak_keys=())

    def attempt(self) -> Attempt:
        return Attempt(
            tuple(
                AttemptStep(
                    uses=tuple(ToolUse(call.name, call.parameters) for call in step.tool_call),
                    reasoning=step.think,
                    response=step.response,
                    timestamp_ms=step.timestamp,
                )
                for step in self.steps
            )
        )


def score_file(path: Path) -> GoldenReport:
    """Score every case of a golden file. Raises GoldenFileError, or OSError when it cannot be read."""
    mismatches: list[Mismatch] = []
    total = matched = 0
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                case = _Case.model_validate_json(line)
            except ValidationError as error:
                raise GoldenFileError(f"{path.name}, line {number}: not a golden case: {error}") from error
            found = _mismatches(case)
            total += 1
            matched += not found
            mismatches += found
    return GoldenReport(total, matched, tuple(mismatches))


def _mismatches(case: _Case) -> list[Mismatch]:
    catalog = {product.product_id: product for product in case.catalog}
    similarity = PrecomputedSimilarity(case.title_similarity)
    try:
        outcome = score(case.answered(), case.attempt(), catalog.get, similarity)
    except (UnscorableProblem, UnknownPair) as error:
        return [Mismatch(case.case_id, "error", case.expected, str(error))]
    found = []
    for name in sorted(case.expected.keys() | outcome.components.keys()):
        expected, got = case.expected.get(name), outcome.components.get(name)
        if expected is None or got is None or abs(expected - got) > TOLERANCE:
            found.append(Mismatch(case.case_id, name, expected, got))
    if outcome.solved != case.success:
        found.append(Mismatch(case.case_id, "success", case.success, outcome.solved))
    return found
