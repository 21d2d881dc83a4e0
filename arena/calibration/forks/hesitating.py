"""The public model-driven agent, which asks itself once more before it recommends."""

import json
from typing import Any

from agent_kit import Llm, Problem, ToolError, Tools  # type: ignore[import-not-found]

MODEL = "default"
MAX_TURNS = 32
MAX_NUDGES = 2

SYSTEM = """You are a careful shopper. Fulfil the request with the tools.
Search with the words that matter, and with the price, service and shop_id filters where they help. View the
closest candidates: titles do not tell everything. Compare at least two by what the results say. Before you
answer, check every constraint again and redo the sums. Recommend once, ids in the order asked for, then
terminate.
"""
CHECK = "Compare every constraint of the request with what you have seen, then recommend again."
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
        if hesitate(messages, calls):
            continue
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


def hesitate(messages: list[dict[str, Any]], calls: list[dict[str, Any]]) -> bool:
    """Before the first recommendation, have the model check it; its calls are then answered with that."""
    names = {call["function"]["name"] for call in calls}
    asked = any(m.get("content") == CHECK for m in messages)
    if "recommend_product" not in names or asked:
        return False
    for call in calls:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "held back for a check"})
    messages.append({"role": "user", "content": CHECK})
    return True
