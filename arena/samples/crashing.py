"""Begins well and raises half-way, before it has answered. The fault is its own, and its score is zero."""

from agent_kit import Llm, Problem, Tools  # type: ignore[import-not-found]

MODEL = "default"


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    messages = [{"role": "user", "content": problem.query}]
    message = llm.chat(messages, tools=tools.specs, model=MODEL)
    for call in message.get("tool_calls") or []:
        tools.call(call["function"]["name"], call["function"]["arguments"])
    raise RuntimeError("this agent has a bug in the middle of its work")
