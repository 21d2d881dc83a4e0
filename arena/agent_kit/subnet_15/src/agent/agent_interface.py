"""A registry of an agent's own tools, and the steps of the dialogue that `agent_main` returns.

The one thing to know: what is written here is the agent's own account. All that is read of it is the last
call of `recommend_product`, and that only when the agent gave its answer to no tool. What counts is what the
recorder saw; a call that the model wrote as tagged text is recognised there.
"""

from __future__ import annotations

import hashlib
import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_TOOL_REGISTRY: dict[str, Callable[..., Any]] = {}
"""The registered tools by name, in the order of their registration."""


def register_tool(name: str, func: Callable[..., Any]) -> None:
    """Make `func` the tool `name`; one of that name before it is replaced."""
    _TOOL_REGISTRY[name] = func


def Tool(name: str | F | None = None) -> Any:
    """Register a function under its own name or the given one: `@Tool`, `@Tool()` or `@Tool("name")`."""
    if callable(name):
        register_tool(name.__name__, name)
        return name

    def register(func: F) -> F:
        register_tool(name or func.__name__, func)
        return func

    return register


def get_tool(name: str) -> Callable[..., Any]:
    """The tool of that name. Raises ValueError, and says which there are."""
    if name not in _TOOL_REGISTRY:
        there = ", ".join(sorted(_TOOL_REGISTRY)) or "none"
        raise ValueError(f"no tool {name!r} is registered; registered: {there}")
    return _TOOL_REGISTRY[name]


def list_tools() -> list[str]:
    """The names of the registered tools."""
    return list(_TOOL_REGISTRY)


def generate_tool_call_id(name: str, parameters: Mapping[str, Any], length: int = 8) -> str:
    """An id for a call: the same for the same name and parameters, `length` letters of hex."""
    return hashlib.sha256(f"{name} {parameters!r}".encode()).hexdigest()[:length]


def execute_tool_call(tool_name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Call a registered tool: its name, parameters, tool_call_id and result. Raises ValueError for an unknown
    tool, and whatever the tool raises.
    """
    return {
        "name": tool_name,
        "parameters": parameters,
        "tool_call_id": generate_tool_call_id(tool_name, parameters),
        "result": get_tool(tool_name)(**parameters),
    }


def format_content(think: str, tool_calls: Sequence[Mapping[str, Any]], response: str) -> str:
    """A turn as tagged text; a part that is empty is left out."""
    calls = [{"name": call["name"], "parameters": call["parameters"]} for call in tool_calls]
    tagged = {"think": think, "tool_call": json.dumps(calls) if calls else "", "response": response}
    return "\n".join(f"<{tag}>{text}</{tag}>" for tag, text in tagged.items() if text)


def create_dialogue_step(
    think: str, tool_results: Sequence[Mapping[str, Any]], response: str, query: str, step: int
) -> dict[str, Any]:
    """One turn of the dialogue that `agent_main` returns. `tool_results` come from `execute_tool_call`."""
    message = {"think": think, "tool_call": tool_results, "response": response}
    return {
        "completion": {
            "reasoning_content": "",
            "content": format_content(think, tool_results, response),
            "message": {part: said for part, said in message.items() if said},
        },
        "extra_info": {"step": step, "query": query, "timestamp": int(time.time() * 1000)},
    }
