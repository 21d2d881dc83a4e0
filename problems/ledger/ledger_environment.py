"""The ledger behind the `Environment` protocol: a search, an answer, and an exact outcome.

An answer is right when it holds what was asked for and nothing else of its kind: one amount, one transaction
id, one counterparty. How it is worded makes no difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jsonschema

from problems.dialogue import last_call
from problems.environment import Attempt, Outcome, RuleFailure, ToolReply, ToolSpec, ToolUse, decoded
from problems.ledger.ledger import ACCOUNTS, NAME, Transaction
from problems.problem import AnsweredProblem, Problem

SCORER = "ledger-exact-1"
PAGE_SIZE = 20

_DAY = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "A day, YYYY-MM-DD, included."}
_AMOUNT = {"type": "number", "description": "Payments are below 0, money that came in is above."}
_FILTERS: dict[str, Any] = {
    "text": {"type": "string", "description": "Words of the counterparty or the memo."},
    "account": {"type": "string", "enum": list(ACCOUNTS)},
    **{"from": _DAY, "to": _DAY, "min_amount": _AMOUNT, "max_amount": _AMOUNT},
    "page": {"type": "integer", "minimum": 1, "maximum": 1000},
}
_ANSWER = {"answer": {"type": "string", "minLength": 1, "maxLength": 500}}
_FIND = f"List the transactions that pass all the given filters, oldest first, {PAGE_SIZE} a page."
_SUBMIT = "Give your answer and end: the amount (84.20), the transaction id, or the name and the amount."
_OBJECT = {"type": "object", "additionalProperties": False}
TOOLS = (
    ToolSpec("search_transactions", _FIND, {**_OBJECT, "properties": _FILTERS}),
    ToolSpec("submit_answer", _SUBMIT, {**_OBJECT, "properties": _ANSWER, "required": ["answer"]}),
)
_CHECKS = {tool.name: jsonschema.Draft202012Validator(tool.parameters) for tool in TOOLS}
_AMOUNTS = re.compile(r"(?<![\w.-])-?(\d[\d,]*)(?:\.(\d{1,2}))?(?![\w-]|\.\d)")
_IDS = re.compile(r"\bt-\d+\b", re.IGNORECASE)


class LedgerEnvironment:
    """Questions over one ledger, which is in order of time. Stateless, and safe from several threads."""

    name = NAME
    scorer = SCORER

    def __init__(self, ledger: Sequence[Transaction]) -> None:
        self.ledger = tuple(ledger)
        self._names = {line.counterparty.lower() for line in ledger}

    def tools(self, problem: Problem) -> tuple[ToolSpec, ...]:
        """The same two tools for every problem."""
        return TOOLS

    def canonical(self, tool: str, arguments: object) -> dict[str, Any] | None:
        """The arguments with the page as a whole number, or None when they do not fit the tool's schema."""
        written = decoded(arguments)
        return None if _refusal(tool, written) else _plain(written)

    def call(self, tool: str, arguments: object) -> ToolReply:
        """Execute a call; what cannot be executed is answered with `error`."""
        if error := _refusal(tool, decoded(arguments)):
            return ToolReply({"error": error}, None, error)
        wanted = _plain(decoded(arguments))
        if tool == "submit_answer":
            return ToolReply("Your answer was taken.", wanted)
        start = PAGE_SIZE * (wanted.get("page", 1) - 1)
        found = [line.shown() for line in self.ledger if _passes(line, wanted)]
        return ToolReply(found[start : start + PAGE_SIZE], wanted)

    def is_final(self, use: ToolUse) -> bool:
        """Whether this is an accepted answer."""
        return use.name == "submit_answer" and use.ok

    def answered(self, attempt: Attempt) -> bool:
        """Whether an answer was given."""
        return any(self.is_final(use) for use in attempt.uses)

    def claimed(self, claim: object) -> ToolUse | None:
        """The last answer of a dialogue, when the tool would take it."""
        canonical = self.canonical("submit_answer", last_call(claim, "submit_answer"))
        return None if canonical is None else ToolUse("submit_answer", canonical)

    def score(self, problem: AnsweredProblem, attempt: Attempt) -> Outcome:
        """Compare the last answer, part by part, with what was wanted."""
        given = next((str(u.arguments["answer"]) for u in reversed(attempt.uses) if self.is_final(u)), "")
        amounts = _AMOUNTS.findall(_IDS.sub(" ", given))
        found = {
            "transaction_id": {match.lower() for match in _IDS.findall(given)},
            "counterparty": {name for name in self._names if name in given.lower()},
            "amount": {f"{whole.replace(',', '')}.{part:0<2}" for whole, part in amounts},
        }
        failures = tuple(
            RuleFailure(part, wanted, sorted(found[part]))
            for part, wanted in sorted(problem.answer.items())
            if found[part] != {str(wanted).lower()}
        )
        return Outcome({"answer": float(not failures)}, not failures, SCORER, failures)


def _refusal(tool: str, arguments: object) -> str | None:
    """Why a call cannot be executed, in words a model can act on."""
    if tool not in _CHECKS:
        return f"there is no tool {tool[:80]!a}; the tools are {', '.join(_CHECKS)}"
    first = next(iter(_CHECKS[tool].iter_errors(arguments)), None)
    return None if first is None else f"{tool}: {'.'.join(map(str, first.path))} {first.message[:200]!s}"


def _plain(arguments: Any) -> dict[str, Any]:
    return {name: int(value) if name == "page" else value for name, value in arguments.items()}


def _passes(line: Transaction, wanted: dict[str, Any]) -> bool:
    written, amount = f"{line.counterparty} {line.memo}".lower(), line.cents / 100
    return (
        all(word in written for word in str(wanted.get("text", "")).lower().split())
        and wanted.get("account", line.account) == line.account
        and wanted.get("from", "") <= line.day <= wanted.get("to", "9999")
        and wanted.get("min_amount", amount) <= amount <= wanted.get("max_amount", amount)
    )
