"""The rules by which the scripted model answers questions over a bank ledger: the second world's policy.

Like the shopper it comes in three qualities. *Careful* lists every payment in question, page by page, and
does the sums. *Hasty* looks at one page of whatever bears the name. *Noisy* is careful but makes slips, drawn
from the seed and the request. It reads the conversation alone; it computes nothing that results did not show.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arena.scripted_shopper.conversation import Conversation

SEARCH, SUBMIT = "search_transactions", "submit_answer"
_FULL_PAGE = 20
_MAX_CALLS = 12
_PERIOD = re.compile(r"from my (\w+) account from (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)")
_PAID = re.compile(r"did I pay (.+?) from my")
_LARGEST = re.compile(r"largest payment to (.+?) from my")
_COMPARED = re.compile(r"\d, (.+?) or (.+?), and how much")

Answer = tuple[str, tuple[str, dict[str, Any]]]
"""Reasoning and the call that goes with it."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, read from its words. `kind` is total, largest or compare."""

    kind: str
    names: tuple[str, ...]
    account: str
    start: str
    end: str


def read_question(request: str) -> Question | None:
    """The question in a request; None when it is none that this clerk knows."""
    period = _PERIOD.search(request)
    if period is None:
        return None
    for kind, pattern in (("total", _PAID), ("largest", _LARGEST), ("compare", _COMPARED)):
        if found := pattern.search(request):
            return Question(kind, found.groups(), *period.groups())
    return None


def answer(
    conversation: Conversation, *, quality: Literal["careful", "hasty", "noisy"], seed: int
) -> Answer | None:
    """The next call with its reasoning; None when there is nothing left to do."""
    if conversation.named(SUBMIT):
        return None
    question = read_question(conversation.request)
    if question is None:
        return "I cannot tell what is asked, and say so.", (SUBMIT, {"answer": "unknown"})
    slip = _slip(seed, conversation.request) if quality == "noisy" else ""
    rows: dict[str, list[Row]] = {}
    for name in question.names:
        if quality == "hasty":
            calls = [{"text": name, "account": question.account}]
        else:
            calls = [_search(question, name, page, slip) for page in range(1, _MAX_CALLS)]
        rows[name] = []
        for call in calls:
            made = conversation.result_of(SEARCH, call)
            if made is None:
                return _looking(question, name, call, rows), (SEARCH, call)
            found = [row for row in made.result if isinstance(row, Mapping)] if _listed(made.result) else []
            rows[name] += found
            if len(found) < _FULL_PAGE:
                break
    return _concluded(question, rows, second_best=slip == "second best")


def _search(question: Question, name: str, page: int, slip: str) -> dict[str, Any]:
    period = {} if slip == "no period" else {"from": question.start, "to": question.end}
    return {"text": name, "account": question.account, **period, "max_amount": -0.01, "page": page}


def _slip(seed: int, request: str) -> str:
    rng = random.Random(hashlib.sha256(f"{seed}\n{request}".encode()).digest())
    return rng.choices(("", "no period", "second best"), weights=(6, 2, 2))[0]


def _looking(question: Question, name: str, call: Mapping[str, Any], rows: Mapping[str, list[Row]]) -> str:
    if seen := rows[name]:
        last = seen[-1].get("date")
        return (
            f"That page was full ({len(seen)} payments to {name} so far, the last on {last}), so there may "
            "be more; I ask for the next page before I add anything up."
        )
    if "from" not in call:
        return f"I list what bears the name {name} in {question.account}."
    said = f"I need every payment to {name} from {question.account}, {question.start} to {question.end}."
    return f"{said} Refunds are above 0, so a maximum below 0 leaves them out."


def _concluded(question: Question, rows: Mapping[str, list[Row]], *, second_best: bool) -> Answer:
    totals = {name: -sum(round(100 * float(row["amount"])) for row in found) for name, found in rows.items()}
    summed = "; ".join(
        f"{name}: {' + '.join(map(_paid, found)) or 'nothing'} = {totals[name] / 100:.2f}"
        for name, found in rows.items()
    )
    if question.kind == "largest":
        ranked = sorted(rows[question.names[0]], key=lambda row: float(row["amount"]))
        if not ranked:
            return "No payment was listed, so I cannot name one.", (SUBMIT, {"answer": "none"})
        best = ranked[1] if second_best and len(ranked) > 1 else ranked[0]
        listed = ", ".join(f"{row['transaction_id']} {_paid(row)}" for row in ranked[:4])
        said = (
            f"Of the {len(ranked)} payments listed the largest are {listed}; {best['transaction_id']} it is."
        )
        return said, (SUBMIT, {"answer": str(best["transaction_id"])})
    order = sorted(totals, key=lambda name: -totals[name])
    name = order[-1] if second_best else order[0]
    amount = f"{totals[name] / 100:.2f}"
    if question.kind == "total":
        return f"The payments add up: {summed}.", (SUBMIT, {"answer": amount})
    return f"I compare the sums: {summed}. {name} got more.", (SUBMIT, {"answer": f"{name}, {amount}"})


def _paid(row: Row) -> str:
    return f"{-float(row['amount']):.2f}"


def _listed(result: object) -> bool:
    return isinstance(result, Sequence) and not isinstance(result, str)
