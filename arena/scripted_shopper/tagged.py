"""Conversations in tags: `<think>`, `<tool_call>`, `<obs>`, `<response>`, for agents without native calls.

The one thing to know: only the form differs. A conversation in tags is read as the same conversation with
native calls, and the turn that follows is written in tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arena.scripted_shopper.conversation import text_of

_CALL = "<tool_call>"
_PARTS = re.compile(r"<(user|tool_call|obs)>(.*?)</\1>", re.DOTALL)
_NAMES = re.compile(r"\b[a-z]+_[a-z_]+\b|\bterminate\b")


def tools_named(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names in a system message that asks for calls in tags, the tools among them; none if none does."""
    asked = "\n".join(text_of(m) for m in messages if m.get("role") in ("system", "developer"))
    return list(dict.fromkeys(_NAMES.findall(asked))) if _CALL in asked else []


def with_native_calls(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same conversation with native calls and results. The history may stand in one message or many."""
    spoken = [m for m in messages if m.get("role") not in ("system", "developer")]
    parts = [part for message in spoken for part in _PARTS.findall(text_of(message))]
    first = text_of(spoken[0]) if spoken else ""
    request = next((text for tag, text in parts if tag == "user"), first.partition("<think>")[0])
    read: list[dict[str, Any]] = [{"role": "user", "content": request}]
    waiting: list[str] = []
    for position, (tag, text) in enumerate(parts):
        if tag == "tool_call":
            calls = list(_calls(text, position))
            read.append({"role": "assistant", "content": None, "tool_calls": calls})
            waiting = [call["id"] for call in calls]
        elif tag == "obs":
            for call_id, result in zip(waiting, _results(text, len(waiting)), strict=False):
                content = json.dumps(result, ensure_ascii=False)
                read.append({"role": "tool", "tool_call_id": call_id, "content": content})
            waiting = []
    return read


def in_tags(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message in which reasoning, calls and text are tagged."""
    calls = [
        {"name": call["function"]["name"], "parameters": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    parts = {
        "think": message.get("reasoning_content") or "",
        "tool_call": json.dumps(calls, ensure_ascii=False) if calls else "",
        "response": message.get("content") or "",
    }
    content = "\n".join(f"<{tag}>{text}</{tag}>" for tag, text in parts.items() if text)
    return {"role": "assistant", "content": content}


def _calls(text: str, position: int) -> Iterator[dict[str, Any]]:
    written = _json(text)
    for number, call in enumerate(written if isinstance(written, list) else [written]):
        if isinstance(call, Mapping) and "name" in call:
            arguments = json.dumps(call.get("parameters", call.get("arguments", {})))
            function = {"name": str(call["name"]), "arguments": arguments}
            yield {"id": f"{position}-{number}", "type": "function", "function": function}


def _results(text: str, expected: int) -> list[Any]:
    """One result for each call, in their order; a single call may have its result as it is."""
    found = _json(text)
    listed = found if isinstance(found, list) else [found]
    if len(listed) == expected and all(isinstance(one, Mapping) and "results" in one for one in listed):
        return [one["results"] for one in listed]
    return [found] if expected == 1 else listed


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
