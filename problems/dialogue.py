"""Dialogues as agents of Bittensor's subnet 15 return them: a list of steps, each with the calls made in it.

The one thing to know: a dialogue is an agent's own account. All that is ever read from it is the last call of
one tool, with which the agent says what its answer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def last_call(dialogue: object, tool: str) -> object | None:
    """The arguments of the last call of `tool`, None when there is none. Never raises.

    A step is {"completion": {"message": {"tool_call": [{"name", "parameters"}]}}}.
    """
    for step in reversed(_listed(dialogue)):
        for call in reversed(list(_calls(step))):
            if call.get("name") == tool:
                arguments: object = call.get("parameters", call.get("arguments"))
                return arguments
    return None


def _calls(step: object) -> Iterator[Mapping[str, Any]]:
    message = _object(_object(step).get("completion")).get("message")
    for call in _listed(_object(message).get("tool_call")):
        if isinstance(call, Mapping):
            yield call


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
