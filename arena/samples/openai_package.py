"""The `openai` package, unchanged: OPENAI_BASE_URL and OPENAI_API_KEY are set by the arena.

A plain script instead of a `solve` function: both are fine.
"""

import json
from typing import Any, cast

from agent_kit import ToolError, problem, tools  # type: ignore[import-not-found]
from openai import OpenAI

MODEL = "default"
MAX_TURNS = 32

client = OpenAI(max_retries=0, timeout=300)
messages: list[Any] = [
    {
        "role": "system",
        "content": "Fulfil the shopping request with the tools. View and compare candidates before you "
        "recommend; check prices, services and budget; then recommend once and terminate.",
    },
    {"role": "user", "content": problem.query},
]


def run_tool(call: Any) -> str:
    """The result of a tool call as text."""
    try:
        return json.dumps(tools.call(call.function.name, call.function.arguments), ensure_ascii=False)
    except ToolError as error:
        return json.dumps({"error": str(error)})


for _ in range(MAX_TURNS):
    completion = client.chat.completions.create(model=MODEL, messages=messages, tools=tools.specs)
    message = completion.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    ended = False
    for tool_call in cast("list[Any]", message.tool_calls):
        result = run_tool(tool_call)
        messages.append({"role": "tool", "tool_call_id": tool_call.id, "content": result})
        ended = ended or tool_call.function.name == "terminate"
    if ended:
        break
