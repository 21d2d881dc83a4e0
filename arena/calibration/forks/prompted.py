"""The public model-driven agent with a prompt of its own."""

import json
from typing import Any

from agent_kit import Llm, Problem, ToolError, Tools  # type: ignore[import-not-found]

MODEL = "default"
MAX_TURNS = 32
MAX_NUDGES = 2

SYSTEM = """Shop as a buyer for a museum shop would: exactly what was asked for, documented, within the sum.
First write down what must hold: object, material, measures, price, who sells it. Search for the object alone,
then narrow. Open every product that may do, and strike out each that breaks one of your points. Say which are
left and why the first of them is the one. Then recommend it and terminate.
"""
NUDGE = "Please go on with a tool call. When you have recommended, call terminate."


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": problem.query},
    ]
    nudges = 0
    for _ in range(MAX_TURNS):
        message = llm.chat(messages, tools=tools.specs, model=MODEL)
        messages.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            messages.append(carry_out(tools, call))
            if call["function"]["name"] == "terminate":
                return
        if not calls:
            if nudges == MAX_NUDGES:
                return
            nudges += 1
            messages.append({"role": "user", "content": NUDGE})


def carry_out(tools: Tools, call: dict[str, Any]) -> dict[str, Any]:
    """The tool message that answers a call of the model, be it a result or a refusal to learn from."""
    function = call["function"]
    try:
        content = tools.call(function["name"], function["arguments"])
    except ToolError as error:
        content = {"error": str(error)}
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call["id"], "content": text}
