"""Which tool calls a model response carries.

Two forms count: native `tool_calls`, and, when there are none, `<tool_call>` blocks in the content. A block
inside the model's thinking is a thought, not a call. The arguments are brought to the environment's canonical
form, so that the call that follows can be recognised however it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from arena import strict_json
from problems.environment import Environment

MAX_EMITTED = 16
"""Calls of one response that count; a shopper looks at a few things at once. A model that is made to recite a
long list, so that the calls of a script look like its own, must be asked again for every so many."""
MAX_ARGUMENT_BYTES = 64 * 1024


def emitted_calls(message: Mapping[str, Any], environment: Environment, call_id: str) -> list[dict[str, Any]]:
    """The calls in an assistant message: [{"id", "name", "arguments"}], arguments null if not understood."""
    native = [
        (call["id"], call["function"]["name"], _parsed(call["function"]["arguments"]))
        for call in message.get("tool_calls", [])
    ]
    tagged = () if native else _tagged(message.get("content") or "")
    found = native or [(f"{call_id}-{i}", name, arguments) for i, (name, arguments) in enumerate(tagged)]
    return [
        {"id": name_id, "name": name, "arguments": _canonical(environment, name, arguments)}
        for name_id, name, arguments in found[:MAX_EMITTED]
    ]


def _canonical(environment: Environment, name: str, arguments: object) -> dict[str, Any] | None:
    return None if arguments is None else environment.canonical(name, arguments)


def _tagged(content: str) -> Iterator[tuple[str, object]]:
    for piece in _without_thinking(content).split("<tool_call>")[1:]:
        block, closed, _ = piece.partition("</tool_call>")
        value = _parsed(_unfenced(block.strip())) if closed else None
        for call in value if isinstance(value, list) else [value]:
            if isinstance(call, dict) and isinstance(call.get("name"), str):
                arguments = call.get("arguments", call.get("parameters"))
                yield call["name"], _parsed(arguments) if isinstance(arguments, str) else arguments


def _unfenced(block: str) -> str:
    """`block` without a Markdown fence around the whole of it."""
    if not (block.startswith("```") and block.endswith("```") and len(block) > 6):
        return block
    language, _, rest = block[3:-3].partition("\n")
    return rest if language.strip().isalnum() or not language.strip() else block[3:-3]


def _parsed(text: str) -> object:
    try:
        return strict_json.loads(text, max_bytes=MAX_ARGUMENT_BYTES)
    except strict_json.StrictJsonError:
        return None


def _without_thinking(content: str) -> str:
    """`content` without `<think>` parts; a missing opening or closing tag stands at the start or the end."""
    first_close = content.find("</think>")
    if first_close >= 0 and "<think>" not in content[:first_close]:
        content = content[first_close + len("</think>") :]
    kept, rest = [], content
    while True:
        before, opened, after = rest.partition("<think>")
        kept.append(before)
        if not opened:
            return "".join(kept)
        _, closed, rest = after.partition("</think>")
        if not closed:
            return "".join(kept)
