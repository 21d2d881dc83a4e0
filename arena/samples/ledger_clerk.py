"""The model answers questions over a ledger: this script carries out its tool calls, and nothing else."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from agent_kit import Llm, Problem, ToolError, Tools  # type: ignore[import-not-found]

MODEL = "default"
MOST_CALLS = 24

SYSTEM = """You are a careful clerk. Answer the question from the ledger, with the tools.
List every transaction that matters, page by page, with the filters that the question gives. A payment is
below 0; a refund is above. Do the sums once more before you answer, and answer once.
"""


class Conversation:
    """What was said so far, and the calls that the model makes as it goes on."""

    def __init__(self, llm: Llm, question: str, offered: Any) -> None:
        self.said: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self.said.append({"role": "user", "content": question})
        self.llm, self.offered = llm, offered

    def wishes(self) -> Iterator[tuple[str, str, str]]:
        """Id, tool and arguments of each call, turn by turn, until the model makes none."""
        while wanted := self.turn():
            yield from ((w["id"], w["function"]["name"], w["function"]["arguments"]) for w in wanted)

    def turn(self) -> list[Any]:
        reply = self.llm.chat(self.said, tools=self.offered, model=MODEL)
        self.said.append(reply)
        return list(reply.get("tool_calls") or ())


def looked_up(tools: Tools, tool: str, arguments: str) -> str:
    """What the ledger says, as text for the model."""
    try:
        return json.dumps(tools.call(tool, arguments))
    except ToolError as refused:
        return f"refused: {refused}"


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    conversation = Conversation(llm, problem.query, tools.specs)
    for wish, tool, arguments in islice(conversation.wishes(), MOST_CALLS):
        found = looked_up(tools, tool, arguments)
        if tool == "submit_answer":
            break
        conversation.said.append({"role": "tool", "tool_call_id": wish, "content": found})
