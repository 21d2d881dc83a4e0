"""What a model wrote, taken at its plain meaning: empty or not, a number, a text, and how it is shown back.

Everything that reads arguments stands on these. None of them raises anything but `BadArgument`, whatever
JSON it is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

_LARGEST = 1e15
"""Beyond it a float no longer tells neighbouring cents apart."""
_SHOWN = 80


class BadArgument(ValueError):
    """A call that cannot be understood, in words a model can act on."""


def empty(value: object) -> bool:
    """Whether a model meant "not given": null, an empty text or an empty list."""
    return value is None or value in ((), []) or (isinstance(value, str) and not value.strip())


def number(value: object) -> float | None:
    """A finite number, written as one or as text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if abs(read) < _LARGEST else None


def whole(value: object, low: int, high: int) -> int | None:
    """A whole number within the bounds, however it is written ("2", 2.0); None otherwise."""
    read = number(value)
    return int(read) if read is not None and read.is_integer() and low <= read <= high else None


def amount(value: float) -> str:
    """A number as a person writes it: no ".0"."""
    return str(int(value)) if value.is_integer() else str(value)


def plain(text: str) -> str:
    """`text` with runs of space as one, and without lone surrogates, which no UTF-8 has."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def shown(value: object) -> str:
    """`value` as JSON in ASCII, shortened: safe in any message."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(names)
