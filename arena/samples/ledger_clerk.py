"""The model answers questions over a ledger: this script carries out its tool calls, and nothing else."""

import json
from typing import Any

from agent_kit import Llm, Problem, ToolError, Tools  # type: ignore[import-not-found]

MODEL = "default"
MAX_TURNS = 24

SYSTEM = """You are a careful clerk. Answer the question from the ledger, with the tools.
List every transaction that matters, page by page, with the filters that the question gives. A payment is
below 0; a refund is above. Do the sums once more before you answer, and answer once.
"""


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": problem.query},
    ]
    for _ in range(MAX_TURNS):
        message = llm.chat(messages, tools=tools.specs, model=MODEL)
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            return
        for call in calls:
            function = call["function"]
            try:
                content = tools.call(function["name"], function["arguments"])
            except ToolError as error:
                content = {"error": str(error)}
            if function["name"] == "submit_answer":
                return
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(content)})
