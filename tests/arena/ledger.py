"""A second world: a ledger to add amounts to. Nothing outside `problems/` knows of shopping."""

from __future__ import annotations

import time
from typing import Any

from problems.dialogue import last_call
from problems.environment import Attempt, Outcome, RuleFailure, ToolReply, ToolSpec, ToolUse
from problems.problem import AnsweredProblem, Problem


class Ledger:
    """Tools: `add(amount)`, `answer(total)`, `finish()`; `explode` and `hang` break the world itself."""

    name = "ledger"

    def tools(self, problem: Problem) -> tuple[ToolSpec, ...]:
        return (
            _spec("add", amount={"type": "integer"}),
            _spec("answer", total={"type": "integer"}),
            _spec("finish"),
            _spec("explode"),
            _spec("hang"),
        )

    def canonical(self, tool: str, arguments: object) -> dict[str, Any] | None:
        field = {"add": "amount", "answer": "total", "finish": None}.get(tool, "?")
        if field is None and arguments == {}:
            return {}
        if field == "?" or not isinstance(arguments, dict) or list(arguments) != [field]:
            return None
        try:
            return {field: int(arguments[field])}
        except (TypeError, ValueError):
            return None

    def call(self, tool: str, arguments: object) -> ToolReply:
        if tool == "explode":
            raise RuntimeError("the ledger burns")
        if tool == "hang":
            time.sleep(1.0)
        canonical = self.canonical(tool, arguments)
        if canonical is None:
            return ToolReply("cannot understand this", None, error="cannot understand this")
        return ToolReply({"done": tool, **canonical}, canonical)

    def claimed(self, claim: object) -> ToolUse | None:
        canonical = self.canonical("answer", last_call(claim, "answer"))
        if canonical == {"total": 666}:
            raise RuntimeError("the ledger burns")
        return None if canonical is None else ToolUse("answer", canonical)

    def is_final(self, use: ToolUse) -> bool:
        return use.name == "finish"

    def answered(self, attempt: Attempt) -> bool:
        return any(use.name == "answer" and use.ok for use in attempt.uses)

    def score(self, problem: AnsweredProblem, attempt: Attempt) -> Outcome:
        totals = [use.arguments["total"] for use in attempt.uses if use.name == "answer" and use.ok]
        right = bool(totals) and totals[-1] == problem.answer["total"]
        failures = () if right else (RuleFailure("total", problem.answer["total"], totals),)
        return Outcome({"total": float(right)}, right, "ledger-1", failures)


def _spec(name: str, **properties: dict[str, str]) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return ToolSpec(name, f"{name} in the ledger", schema)


def ledger_problem(total: int = 42) -> AnsweredProblem:
    public = Problem(problem_id="p1", environment="ledger", category="sum", query="What is 40 + 2?")
    return AnsweredProblem(problem=public, answer={"total": total}, leak_keys=())
