"""What makes a shopping problem that problem and no other: its id, and what makes others its variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from problems.leak_clusters import query_key
from problems.problem import AnsweredProblem, Problem, content_id


def answered(
    category: str,
    query: str,
    answer: dict[str, Any],
    target_ids: Sequence[str],
    *,
    scope: str = "",
    difficulty: str = "",
    facts: Sequence[str] = (),
) -> AnsweredProblem:
    """A shopping problem with its answer. Its id is made of the query, and of `scope`.

    `scope` keeps the same question about another catalog apart: its id would be the same otherwise.
    Problems on the same of `facts` are variants of one another.
    """
    name = content_id(["shopping", scope, category, query])[:12]
    keys = {f"product:{product_id}" for product_id in target_ids} | {query_key(query)}
    keys |= {f"fact:{query_key(fact)}" for fact in facts}
    return AnsweredProblem(
        problem=Problem(
            problem_id=f"{category}-{name}",
            environment="shopping",
            category=category,
            query=query,
            difficulty=difficulty,
        ),
        answer=answer,
        leak_keys=tuple(sorted(keys)),
    )
