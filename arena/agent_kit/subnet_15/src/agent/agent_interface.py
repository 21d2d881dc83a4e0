"""Tools by name and the steps of a dialogue, as agents written for Bittensor's subnet 15 expect them.

The one thing to know: all of this happens inside the agent and proves nothing. Tools that reach the arena do
so through `ProxyClient`, and the recorder writes down what went through there.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

_TOOL_REGISTRY: dict[str, Callable[..., Any]] = {}
_ID_LENGTH = 8


def register_tool(name: str, function: Callable[..., Any]) -> None:
    """Make `function` the tool of that name, in place of an earlier one."""
    _TOOL_REGISTRY[name] = function


def Tool(named: Any = None) -> Any:
    """Register the decorated function as a tool: `@Tool`, `@Tool()`, or `@Tool("another name")`."""
    if callable(named):
        register_tool(named.__name__, named)
        return named

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        register_tool(named or function.__name__, function)
        return function

    return decorate


def get_tool(name: str) -> Callable[..., Any]:
    """The tool of that name. Raises ValueError, with the names there are, when there is none."""
    if name in _TOOL_REGISTRY:
        return _TOOL_REGISTRY[name]
    raise ValueError(f"no tool {name!r} is registered; registered: {', '.join(list_tools()) or 'none'}")


def list_tools() -> list[str]:
    """The names of all tools, sorted."""
    return sorted(_TOOL_REGISTRY)


def generate_tool_call_id(name: str, parameters: Any) -> str:
    """An id that only depends on what is called, and with what."""
    called = json.dumps([name, parameters], sort_keys=True, default=str).encode()
    digest = hashlib.sha256(called).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_ID_LENGTH]


def execute_tool_call(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Call a tool by name: what was called, with what, under which id, and what it gave.

    Raises ValueError when there is no such tool, and whatever the tool raises.
    """
    result = get_tool(name)(**parameters)
    call_id = generate_tool_call_id(name, parameters)
    return {"name": name, "parameters": parameters, "tool_call_id": call_id, "result": result}


def create_dialogue_step(
    think: str, tool_results: list[dict[str, Any]], response: str, query: str, step: int
) -> dict[str, Any]:
    """One turn for the list that `agent_main` returns. `tool_results` is what `execute_tool_call` gave.

    What is empty is left out of the message, and of the tagged text that repeats it.
    """
    called = [{"name": made["name"], "parameters": made["parameters"]} for made in tool_results]
    message = {"think": think, "tool_call": tool_results, "response": response}
    written = {"think": think, "tool_call": called and json.dumps(called), "response": response}
    return {
        "completion": {
            "content": "\n".join(f"<{tag}>{text}</{tag}>" for tag, text in written.items() if text),
            "message": {part: content for part, content in message.items() if content},
        },
        "extra_info": {"step": step, "query": query, "timestamp": int(time.time() * 1000)},
    }
