"""Problems, with and without their answers, and suites of them.

`Problem` is what an agent may see; `AnsweredProblem` adds what only the scorer may. They are different
classes so that an answer cannot travel where it should not: the first has no field for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict


def canonical_json(value: object) -> bytes:
    """`value` as UTF-8 JSON with sorted keys and no spaces: equal values give equal bytes.

    Raises ValueError on NaN or infinities.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def content_id(value: object) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class Problem(BaseModel):
    """A problem as an agent may see it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem_id: str
    """Stable id; says nothing of the answer."""
    environment: str
    category: str
    """In the shopping environment: product, shop, voucher or web."""
    query: str
    difficulty: str = ""
    """easy, medium or hard, by what had to be certified; empty where nobody graded it."""


class AnsweredProblem(BaseModel):
    """A problem with its answer. Never serialised towards an agent, a judge or a public listing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: Problem
    answer: dict[str, Any]
    """Environment-specific; shopping: `reward` and, for vouchers, `voucher`, as ShoppingBench writes them."""
    leak_keys: tuple[str, ...]
    """What makes two problems variants of one another when shared (target product ids, say). Sorted."""


class SuiteManifest(BaseModel):
    """What a suite says of itself without telling a problem or an answer.

    Its hash is the suite's id. It holds the hashes of both files, so that whoever has the problems alone can
    check that they belong to a suite whose answers were fixed at the same time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    environment: str
    environment_version: str
    scorer: str
    catalog_id: str
    options: dict[str, Any]
    problems: int
    categories: dict[str, int]
    difficulties: dict[str, int]
    problems_sha256: str
    answers_sha256: str


class ProblemSuite(BaseModel):
    """A named, content-addressed set of problems over one catalog."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    environment: str
    environment_version: str = ""
    """Version of the tools and of what they answer; empty for an environment that has but one."""
    catalog_id: str
    """Content hash of the catalog the problems are about."""
    scorer: str
    options: dict[str, Any] = {}
    """How it is played and scored where the environment leaves a choice; environment-specific."""
    problems: tuple[AnsweredProblem, ...]

    @property
    def suite_id(self) -> str:
        """SHA-256 over everything in the suite, answers included."""
        return content_id(self.manifest().model_dump(mode="json"))

    def manifest(self) -> SuiteManifest:
        """What may be said of the suite to anybody."""
        return SuiteManifest(
            name=self.name,
            environment=self.environment,
            environment_version=self.environment_version,
            scorer=self.scorer,
            catalog_id=self.catalog_id,
            options=self.options,
            problems=len(self.problems),
            categories=self.categories(),
            difficulties=_count(p.problem.difficulty for p in self.problems if p.problem.difficulty),
            problems_sha256=hashlib.sha256(self.problem_lines()).hexdigest(),
            answers_sha256=hashlib.sha256(self.answer_lines()).hexdigest(),
        )

    def problem_lines(self) -> bytes:
        """The problems as agents may see them, JSON Lines, in order."""
        return _lines(p.problem.model_dump(mode="json") for p in self.problems)

    def answer_lines(self) -> bytes:
        """The answers, JSON Lines, in order: `problem_id`, `answer`, `leak_keys`. Private."""
        return _lines(
            {"problem_id": p.problem.problem_id, "answer": p.answer, "leak_keys": list(p.leak_keys)}
            for p in self.problems
        )

    def categories(self) -> dict[str, int]:
        """How many problems each category has, by name in sorted order."""
        return _count(p.problem.category for p in self.problems)


def _lines(values: Iterable[object]) -> bytes:
    return b"".join(canonical_json(value) + b"\n" for value in values)


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
