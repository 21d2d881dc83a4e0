"""Chat messages, tool calls and tool schemas in the one form that a corpus uses.

Arguments are JSON text with `json.dumps` spacing, whatever a provider or a client made of them: a template
renders such a string exactly as it renders the parsed object, and a table of strings cannot be filled up with
nulls for the arguments that other rows have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from storage.events import digest
from storage.turns import plain_text


def arguments(value: object) -> dict[str, Any] | None:
    """The arguments of a tool call, from JSON text or an object; None when they are not a JSON object."""
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_refuse_constant)
        except ValueError:
            return None
    return dict(value) if isinstance(value, Mapping) else None


def arguments_text(value: Mapping[str, Any]) -> str:
    """Arguments as a template renders them. Keys keep their order. Raises ValueError on NaN or infinities."""
    return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)


def message(given: Mapping[str, Any]) -> dict[str, Any]:
    """A chat message with text content, and with tool calls whose readable arguments are canonical text.

    What a model call had as arguments that are no JSON object stays as it was written: it is part of the
    context the model saw.
    """
    kept: dict[str, Any] = {"role": str(given["role"]), "content": plain_text(given.get("content"))}
    reasoning = given.get("reasoning_content") or given.get("reasoning")
    if kept["role"] == "assistant" and isinstance(reasoning, str) and reasoning.strip():
        kept["reasoning_content"] = reasoning
    if given.get("tool_calls"):
        kept["tool_calls"] = [_tool_call(call) for call in given["tool_calls"]]
    return kept


def tool_call(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call of an assistant message."""
    return {"type": "function", "function": {"name": name, "arguments": arguments_text(values)}}


def tools(offered: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """OpenAI tools, in their order, with nothing but name, description and parameters, keys sorted."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "parameters": _sorted(tool["function"].get("parameters", {"type": "object"})),
            },
        }
        for tool in offered
    )


def tools_hash(canonical: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 (hex) of canonical tools."""
    return digest([dict(tool) for tool in canonical])


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function", call)
    written = function.get("arguments")
    values = arguments(written)
    text = plain_text(written) if values is None else arguments_text(values)
    return {"type": "function", "function": {"name": str(function.get("name", "")), "arguments": text}}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
