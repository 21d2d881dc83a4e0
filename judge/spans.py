"""Places in a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open character range of a step's spoken text."""

    start: int
    end: int
