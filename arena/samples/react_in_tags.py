"""Written as agents of Bittensor's subnet 15 are: a loop of thoughts, tagged calls and observations.

The model writes its calls as text in tags; the script carries them out through the proxy and writes down a
dialogue, which it returns.
"""
# mypy: allow-untyped-decorators

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

MODEL = "default"
MAX_STEPS = 20

SYSTEM = """You are a shopper who fulfils a request with tools. Each turn, think inside <think></think>, then
either call tools inside <tool_call></tool_call>, as a JSON list of {"name": ..., "parameters": {...}}, or
speak to the customer inside <response></response>. What the tools found follows inside <obs></obs>.

The tools:
- find_product(q, page, shop_id, price, sort, service): search the shop; price is "low-high"
- view_product_information(product_ids): descriptions, options and attributes; ids separated by commas
- recommend_product(product_ids): your answer, ids in the order in which the things were asked for
- terminate(status): end, with "success" or "failure", after you have recommended
"""

proxy = ProxyClient(timeout=120, max_retries=2)


@Tool
def find_product(q: str, page: int = 1, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] | None = proxy.get("/search/find_product", {"q": q, "page": page, **filters})
    return found or []


@Tool
def view_product_information(product_ids: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] | None = proxy.get(
        "/search/view_product_information", {"product_ids": product_ids}
    )
    return found or []


@Tool("recommend_product")
def recommend(product_ids: str) -> str:
    return f"Recommended to the customer: {product_ids}"


@Tool()
def terminate(status: str = "success") -> str:
    return f"The dialogue has ended with {status}."


def agent_main(problem_data: dict[str, Any]) -> list[dict[str, Any]]:
    query = problem_data["query"]
    history = [tagged("user", query)]
    steps: list[dict[str, Any]] = []
    for number in range(1, MAX_STEPS + 1):
        said = ask(history)
        if not said:
            break
        think, response = inside("think", said), inside("response", said)
        results = [carry_out(call) for call in calls_in(inside("tool_call", said))]
        steps.append(create_dialogue_step(think, results, response, query, number))
        if response or not results or any(made["name"] == "terminate" for made in results):
            break
        history += [tagged("think", think), tagged("tool_call", inside("tool_call", said))]
        seen = [{"tool_call_id": made["tool_call_id"], "results": made["result"]} for made in results]
        history.append(tagged("obs", json.dumps(seen, ensure_ascii=False)))
    return steps


def ask(history: list[str]) -> str:
    answer = proxy.post(
        "/inference/chat/completions",
        json_data={
            "model": os.getenv("SANDBOX_MODEL", MODEL),
            "temperature": 0.0,
            "messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": "\n\n".join(history)},
            ],
            "stream": False,
        },
    )
    return (answer["choices"][0]["message"].get("content") or "") if answer else ""


def calls_in(text: str) -> list[dict[str, Any]]:
    try:
        calls = json.loads(text or "[]")
    except ValueError:
        return []
    return calls if isinstance(calls, list) else [calls]


def carry_out(call: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(execute_tool_call(call["name"], call["parameters"]))
    except (KeyError, TypeError, ValueError) as error:
        return {
            "name": call.get("name", ""),
            "parameters": {},
            "tool_call_id": "",
            "result": f"Error: {error}",
        }


def tagged(tag: str, text: str) -> str:
    return f"<{tag}>{text}</{tag}>"


def inside(tag: str, text: str) -> str:
    found = re.search(f"<{tag}>(.+?)</{tag}>", text, re.DOTALL)
    return found.group(1).strip() if found else ""
