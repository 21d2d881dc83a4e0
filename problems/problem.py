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


class AnsweredProblem(BaseModel):
    """A problem with its answer. Never serialised towards an agent, a judge or a public listing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: Problem
    answer: dict[str, Any]
    """Environment-specific; shopping: `reward` and, for vouchers, `voucher`, as ShoppingBench writes them."""
    leak_keys: tuple[str, ...]
    """What makes two problems variants of one another when shared (target product ids, say). Sorted."""


class ProblemSuite(BaseModel):
    """A named, content-addressed set of problems over one catalog."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    environment: str
    catalog_id: str
    """Content hash of the catalog the problems are about."""
    scorer: str
    problems: tuple[AnsweredProblem, ...]

    @property
    def suite_id(self) -> str:
        """SHA-256 over everything in the suite, answers included."""
        return content_id(self.model_dump(mode="json"))

    def categories(self) -> dict[str, int]:
        """How many problems each category has, by name in sorted order."""
        return _count(p.problem.category for p in self.problems)


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
