"""What verifying a race finds, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["same", "differs", "not checked"]
MOST_NOTES = 10
"""Differences that a step names; of the others it says how many there are."""


@dataclass(frozen=True, slots=True)
class Step:
    """One comparison. `notes` say what differs, why it was not checked, or what was taken on trust."""

    name: str
    status: Status
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The step as a JSON object."""
        return {"step": self.name, "status": self.status, "notes": list(self.notes)}


def compared(name: str, wrong: Sequence[str], *trusted: str) -> Step:
    """A step that found what is `wrong`, and took on trust what is `trusted`."""
    if not wrong:
        return Step(name, "same", trusted)
    more = len(wrong) - MOST_NOTES
    notes = (*wrong[:MOST_NOTES], *([f"and {more} more"] if more > 0 else []))
    return Step(name, "differs", notes)


def unchecked(name: str, why: str) -> Step:
    """A step that could not be taken."""
    return Step(name, "not checked", (why,))


def differences(
    stored: object, computed: object, path: str = "", words: tuple[str, str] = ("stored", "computed")
) -> list[str]:
    """Where two JSON values differ, as `path: stored x, computed y`, or in other `words` for the two."""
    if isinstance(stored, Mapping) and isinstance(computed, Mapping):
        found: list[str] = []
        for key in sorted({*stored, *computed}, key=str):
            inner = f"{path}.{key}" if path else str(key)
            found += differences(stored.get(key, _NONE), computed.get(key, _NONE), inner, words)
        return found
    if isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        pairs = enumerate(zip(stored, computed, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]", words)]
    if type(stored) is type(computed) and stored == computed:
        return []
    return [f"{path}: {words[0]} {shown(stored)}, {words[1]} {shown(computed)}"]


def shown(value: object) -> str:
    """A value, shortened for a reader."""
    text = "nothing" if value is None or value is _NONE else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


_NONE = object()
