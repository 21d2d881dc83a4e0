"""A model that does not look twice: few turns, no advice. It acts itself, but its reasoning earns little."""

import json

from agent_kit import Llm, Problem, ToolError, Tools  # type: ignore[import-not-found]

MODEL = "scripted-shopper-hasty"


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    talk = [{"role": "user", "content": problem.query}]
    for _ in range(12):
        reply = llm.chat(talk, tools=tools.specs, model=MODEL)
        talk.append(reply)
        if not reply.get("tool_calls"):
            break
        for call in reply["tool_calls"]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                answer = json.dumps(tools.call(name, arguments))
            except ToolError as refused:
                answer = f"refused: {refused}"
            talk.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
            if name == "terminate":
                return
