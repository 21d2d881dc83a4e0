"""Pasted material (results, tagged blocks, fenced code) taken out of a text: copying is no thought."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Any

PROSE_WORDS = 4
"""A JSON object with a string of so many words is a thought in JSON, unless it has an id or grades."""

_FENCED = re.compile(
    r"```.*?(?:```|\Z)|<(tool_call|tool_response|obs|observation|result)s?>.*?(?:</\1s?>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_JSON_OPENS = re.compile(r"[\[{](?=\s*[\"'\[{])")
_JSON_KEY = re.compile(r"[\"']\s*:")
_VERDICT = re.compile(r"grade|gate|verdict|score|rationale|rubric|judge|passed", re.IGNORECASE)


def without_pasted(text: str) -> str:
    """`text` with pasted material replaced by spaces, so that every offset stays where it was.

    A JSON object that holds a thought in words, and neither records nor a verdict, stays.
    """
    text = _FENCED.sub(lambda match: _blank(match.group()), text)
    ends = _closings(text)
    keys = [match.start() for match in _JSON_KEY.finditer(text)]
    kept: list[str] = []
    at = 0
    for opening in _JSON_OPENS.finditer(text):
        start = opening.start()
        end = ends.get(start, len(text))
        if start < at or bisect_left(keys, start) == bisect_left(keys, end):
            continue
        kept += (text[at:start], text[start:end] if _is_thought(text[start:end]) else _blank(text[start:end]))
        at = end
    return "".join([*kept, text[at:]])


def _is_thought(pasted: str) -> bool:
    try:
        value = json.loads(pasted)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not _has_records(value) and any(
        isinstance(inner, str) and len(inner.split()) >= PROSE_WORDS for inner in value.values()
    )  # fmt: skip


def _has_records(value: Any) -> bool:
    if isinstance(value, dict):
        return any(
            name == "id" or name.endswith("_id") or _VERDICT.search(name) or _has_records(inner)
            for name, inner in value.items()
        )
    return isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _closings(text: str) -> dict[int, int]:
    """Where each bracket is closed; one that never is (pasted and cut off) has no entry. One pass."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[\[{\]}]", text):
        if match.group() in "[{":
            opened.append(match.start())
        elif opened:
            ends[opened.pop()] = match.end()
    return ends
