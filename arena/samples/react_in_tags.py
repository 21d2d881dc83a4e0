"""An agent as those of subnet 15 are written: the model reasons and calls tools in tagged text.

Searches and views go through the proxy. What is recommended is only said in the steps that are returned: the
arena takes it as a claim, and as the model's own because the model wrote the call.
"""

import json
import os
import re
from typing import Any

from src.agent.agent_interface import (  # type: ignore[import-not-found]
    Tool,
    create_dialogue_step,
    execute_tool_call,
)
from src.agent.proxy_client import ProxyClient  # type: ignore[import-not-found]

MAX_STEPS = 24
SYSTEM = """You shop for a user. Tools, with their parameters:
- find_product: q, page (1 to 5), and if needed shop_id, price ("10-200"), sort, service
- view_product_information: product_ids, comma-separated
- recommend_product: product_ids, comma-separated, one for each thing that is asked for; call it once
- terminate: status, success or failure
Reply with <think>your reasoning</think> and then
<tool_call>[{"name": "...", "parameters": {...}}]</tool_call>.
View what you found and compare it with the request before you recommend, then terminate."""

proxy = ProxyClient(max_retries=1)


@Tool  # type: ignore[untyped-decorator]
def find_product(**parameters: Any) -> Any:
    """Products that match."""
    return proxy.get("/search/find_product", parameters)


@Tool  # type: ignore[untyped-decorator]
def view_product_information(**parameters: Any) -> Any:
    """All that is known of some products."""
    return proxy.get("/search/view_product_information", parameters)


@Tool  # type: ignore[untyped-decorator]
def recommend_product(product_ids: str, **_: Any) -> str:
    """The answer. It takes effect by being returned."""
    return f"Recommended {product_ids}."


@Tool  # type: ignore[untyped-decorator]
def terminate(status: str = "success", **_: Any) -> str:
    """The end."""
    return f"Ended with {status}."


def tagged(tag: str, text: str) -> str:
    """What stands in the last `tag` of the text, or nothing."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[-1].strip() if found else ""


def calls_in(text: str) -> list[dict[str, Any]]:
    """The calls that the model wrote; none when they cannot be read."""
    try:
        written = json.loads(tagged("tool_call", text) or "[]")
    except ValueError:
        return []
    return [call for call in written if isinstance(call, dict) and call.get("name")]


def agent_main(problem_data: dict[str, Any]) -> list[dict[str, Any]]:
    """Play one problem and return the dialogue."""
    query = problem_data["query"]
    history = f"<user>{query}</user>"
    dialogue: list[dict[str, Any]] = []
    for number in range(1, MAX_STEPS + 1):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": history}]
        body = {"model": os.environ["SANDBOX_MODEL"], "messages": messages, "temperature": 0}
        answer = proxy.post("/inference/chat/completions", body)
        if answer is None:
            break
        text = answer["choices"][0]["message"]["content"] or ""
        results = []
        for call in calls_in(text):
            try:
                results.append(execute_tool_call(call["name"], call.get("parameters") or {}))
            except (TypeError, ValueError) as error:
                results.append({**call, "tool_call_id": "", "result": {"error": str(error)}})
        thought = tagged("think", text)
        dialogue.append(create_dialogue_step(thought, results, tagged("response", text), query, number))
        if not results or any(made["name"] == "terminate" for made in results):
            break
        seen = [{"name": made["name"], "results": made["result"]} for made in results]
        history += f"\n{text}\n<obs>{json.dumps(seen, ensure_ascii=False)}</obs>"
    return dialogue
