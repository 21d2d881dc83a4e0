"""A household's bank ledger and certified questions over it; the same seed gives the same ones anywhere.

Money is in cents; a payment is below 0. A question's leak keys are the transactions that its answer rests on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from problems.problem import AnsweredProblem, Problem, content_id

GENERATOR = "ledger-1"
"""Changes with any change of what a seed gives."""
NAME = "ledger"
ACCOUNTS = ("checking", "savings", "credit")
CATEGORIES = ("total", "largest", "compare")
_FIRST = ["North", "Green", "Harbor", "Silver", "Maple", "Stone", "Bright", "Lake", "Cedar", "Royal", "Blue"]
_TRADES = {
    "grid Energy": ("electricity", "gas", "meter reading"),
    "side Market": ("weekly shop", "groceries", "party supplies"),
    "line Air": ("flight", "seat and bag", "change fee"),
    "brook Clinic": ("check-up", "blood test", "dentist"),
    "stream Media": ("monthly plan", "film rental", "family plan"),
    "gate Books": ("novels", "school books", "magazines"),
}
_TRIES = 200


class LedgerError(ValueError):
    """A ledger of that size cannot be made, or does not give as many problems as were asked for."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of the ledger. `day` is YYYY-MM-DD."""

    transaction_id: str
    day: str
    account: str
    counterparty: str
    cents: int
    memo: str

    def shown(self) -> dict[str, Any]:
        """The transaction as a tool shows it."""
        rest = {"account": self.account, "counterparty": self.counterparty, "amount": self.cents / 100}
        return {"transaction_id": self.transaction_id, "date": self.day, **rest, "memo": self.memo}


def generate(seed: int, *, counterparties: int, days: int = 540) -> tuple[Transaction, ...]:
    """A ledger in order of time, with about a payment a fortnight to each name. Raises LedgerError."""
    draw = random.Random(f"{GENERATOR}:{seed}")
    names = [(first + trade, memos) for trade, memos in _TRADES.items() for first in _FIRST]
    if not 2 <= counterparties <= len(names):
        raise LedgerError(f"a ledger has 2 to {len(names)} counterparties, not {counterparties}")
    lines: list[tuple[str, str, str, int, str]] = []
    for name, memos in draw.sample(names, counterparties):
        usual, middle, day = draw.choice(ACCOUNTS), draw.randrange(900, 25_000), draw.randrange(14)
        while day < days:
            account = usual if draw.random() < 0.8 else draw.choice(ACCOUNTS)
            cents, memo = round(middle * draw.uniform(0.6, 1.5)), draw.choice(memos)
            if draw.random() < 0.06:
                cents, memo = -cents // 2, f"refund {memo}"
            lines.append((_day(day), account, name, -cents, memo))
            day += draw.randrange(5, 24)
    return tuple(Transaction(f"t-{n:05}", *line) for n, line in enumerate(sorted(lines), 1))


def ask(ledger: Sequence[Transaction], *, each: int, seed: int) -> list[AnsweredProblem]:
    """`each` problems of every category, whose answers are unique. Raises LedgerError."""
    draw = random.Random(f"{GENERATOR}:questions:{seed}")
    found: dict[str, AnsweredProblem] = {}
    for number, category in enumerate(CATEGORIES, 1):
        for _ in range(_TRIES * each):
            if len(found) < number * each and (problem := _drawn(draw, category, ledger)) is not None:
                found.setdefault(problem.problem.problem_id, problem)
        if len(found) < number * each:
            raise LedgerError(f"the ledger gives fewer than {each} {category} problems: make it larger")
    return list(found.values())


def _drawn(draw: random.Random, category: str, ledger: Sequence[Transaction]) -> AnsweredProblem | None:
    some, other, first = draw.choice(ledger), draw.choice(ledger).counterparty, draw.randrange(450)
    account, name, start, end = (
        some.account,
        some.counterparty,
        _day(first),
        _day(first + draw.randrange(28, 90)),
    )
    period = f"from my {account} account from {start} to {end}"
    lines = _paid(ledger, name, account, start, end)
    rivals = _paid(ledger, other, account, start, end) if category == "compare" and other != name else []
    total, rival = (-sum(line.cents for line in part) for part in (lines, rivals))
    ranked = sorted(line.cents for line in lines)
    if len(lines) < 2 or ranked[0] == ranked[1] or total == rival or (category == "compare" and not rivals):
        return None
    query = f"How much did I pay {name} {period}, refunds left out?"
    answer = {"amount": f"{total / 100:.2f}"}
    if category == "largest":
        query = f"Which transaction was my largest payment to {name} {period}?"
        answer = {"transaction_id": next(line.transaction_id for line in lines if line.cents == ranked[0])}
    elif category == "compare":
        query = f"Who got more from me {period}, {name} or {other}, and how much, refunds left out?"
        answer = {
            "counterparty": max((total, name), (rival, other))[1],
            "amount": f"{max(total, rival) / 100:.2f}",
        }
    problem_id = f"ledger-{category}-{content_id([GENERATOR, query])[:16]}"
    public = Problem(problem_id=problem_id, environment=NAME, category=category, query=query)
    keys = tuple(sorted(line.transaction_id for line in (*lines, *rivals)))
    return AnsweredProblem(problem=public, answer=answer, leak_keys=keys)


def _paid(lines: Sequence[Transaction], name: str, account: str, start: str, end: str) -> list[Transaction]:
    """The payments to a counterparty from an account in a period, both days included; refunds are none."""
    of_account = [line for line in lines if line.counterparty == name and line.account == account]
    return [line for line in of_account if start <= line.day <= end and line.cents < 0]


def _day(number: int) -> str:
    return (date(2025, 1, 1) + timedelta(number)).isoformat()
