"""What a model wrote, read back: reasoning, text and tool calls out of `<think>` and `<tool_call>` tags.

The only parser of generated text. It never raises: a call that cannot be read is kept, with its reason, so
that an evaluation can count it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from distill.templates import CONTROL_TOKENS

_THINK = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as written. `arguments` is None, and `fault` says why, when it could not be read."""

    name: str
    arguments: dict[str, Any] | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One assistant message, taken apart."""

    reasoning: str
    text: str
    calls: tuple[Call, ...]


def parse(generated: str) -> Completion:
    """Take generated text apart. Everything from the first control token on is ignored."""
    for token in CONTROL_TOKENS:
        generated = generated.split(token, 1)[0]
    reasoning = ""
    if thought := _THINK.match(generated):
        reasoning, generated = thought.group(1), generated[thought.end() :]
    elif generated.lstrip().startswith("<think>"):
        return Completion(reasoning=generated.lstrip()[len("<think>") :].strip("\n"), text="", calls=())
    calls = tuple(_read(body) for body in _CALL.findall(generated))
    return Completion(reasoning.strip("\n"), _CALL.sub("", generated).strip(), calls)


def fault(call: Call, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Why `call` is not a valid call of one of `tools` (OpenAI form), or None when it is."""
    if call.fault is not None or call.arguments is None:
        return call.fault or "no arguments"
    for tool in tools:
        if tool["function"]["name"] == call.name:
            errors = Draft202012Validator(tool["function"]["parameters"]).iter_errors(call.arguments)
            worst = next(iter(errors), None)
            return None if worst is None else f"arguments do not fit the schema: {worst.message}"
    return f"no tool named {call.name!r}"


def _read(body: str) -> Call:
    try:
        value = json.loads(body)
    except ValueError as error:
        return Call("", None, f"not JSON: {error}")
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return Call("", None, "not an object with a name")
    arguments = value.get("arguments")
    if not isinstance(arguments, dict):
        return Call(value["name"], None, "arguments are not an object")
    return Call(value["name"], arguments)
