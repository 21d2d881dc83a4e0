"""How a written price range is understood.

A range has a lower bound, an upper one, or both, and both count as included. A number alone is none of these:
"104" may be a lower bound, an upper one or an exact price, and "11,206" two bounds or one number, so both are
answered with the accepted forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from problems.shopping.tools import PRICE_FORMS
from problems.shopping.written import BadArgument, amount, empty, number, shown

_LONGEST = 100
"""Characters of a price range; no way of writing one needs more."""
_MONEY = r"(?:php|₱|p)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)\s*(?:php|pesos?)?"
_RANGE = re.compile(rf"(?:between|from)?\s*{_MONEY}\s*(?:-|–|—|to|and|~)\s*{_MONEY}")
_LOW = re.compile(
    rf"(?:>=?|≥|above|over|more than|greater than|at least|min(?:imum)?|from)\s*{_MONEY}"
    rf"|{_MONEY}\s*(?:-|–|—|\+|and above|or more|and up)"
)
_HIGH = re.compile(
    rf"(?:<=?|≤|-|–|—|below|under|less than|at most|up to|max(?:imum)?)\s*{_MONEY}"
    rf"|{_MONEY}\s*(?:and below|or less)"
)
_LOW_KEYS = ("min", "minimum", "low", "lower", "from", "gt", "gte", "greaterthan")
_HIGH_KEYS = ("max", "maximum", "high", "upper", "to", "lt", "lte", "lessthan")
_PAIR_KEYS = ("between", "greaterthan", "lessthan", "range")

Bounds = tuple[float | None, float | None]


def read_price(value: object) -> str | None:
    """The range as "low-high" or "low-", None when none was given. Raises BadArgument."""
    if empty(value):
        return None
    low, high = _bounds(value, value)
    if low is not None and high is not None and low > high:
        raise BadArgument(
            f"price {shown(value)} has its lower bound above its upper one; write {PRICE_FORMS}"
        )
    return f"{amount(low or 0.0)}-{'' if high is None else amount(high)}"


def _bounds(value: object, whole: object) -> Bounds:
    """The bounds of `value`, which is `whole` or stands within it."""
    if isinstance(value, str):
        return _of_text(value, whole)
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], str):
        return _of_text(value[0], whole)
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = _bound(value[0], whole), _bound(value[1], whole)
        if low is not None or high is not None:
            return low, high
    if isinstance(value, Mapping) and value:
        return _of_mapping(value, whole)
    raise _refused(whole)


def _of_text(text: str, whole: object) -> Bounds:
    if len(text) > _LONGEST:
        raise _refused(whole)
    written = " ".join(text.lower().split())
    if written[0] in "[{":
        return _of_json(written, whole)
    written = written.strip("() ")
    if found := _RANGE.fullmatch(written):
        return _parsed(found[1], whole), _parsed(found[2], whole)
    if found := _LOW.fullmatch(written):
        return _parsed(found[1] or found[2], whole), None
    if found := _HIGH.fullmatch(written):
        return None, _parsed(found[1] or found[2], whole)
    raise _refused(whole)


def _of_json(text: str, whole: object) -> Bounds:
    """A list or an object that was written as text: "[11, 206]"; or a range in brackets: "[11-206]"."""
    try:
        return _bounds(json.loads(text), whole)
    except ValueError as error:
        if isinstance(error, BadArgument):
            raise
    inner = text.strip("[]{} ")
    if not inner or inner[0] in "[{" or "," in inner:
        raise _refused(whole)
    return _of_text(inner, whole)


def _of_mapping(value: Mapping[Any, object], whole: object) -> Bounds:
    bounds: dict[str, float | None] = {}
    for key, bound in value.items():
        name = re.sub(r"[^a-z]", "", str(key).lower()).removesuffix("price").removeprefix("price")
        if name in _PAIR_KEYS and isinstance(bound, list | tuple) and len(value) == 1:
            return _bounds(bound, whole)
        side = "low" if name in _LOW_KEYS else "high" if name in _HIGH_KEYS else None
        if side is None or side in bounds:
            raise _refused(whole)
        bounds[side] = _bound(bound, whole)
    low, high = bounds.get("low"), bounds.get("high")
    if low is None and high is None:
        raise _refused(whole)
    return low, high


def _bound(value: object, whole: object) -> float | None:
    if value is None:
        return None
    read = number(value)
    if read is None or read < 0:
        raise _refused(whole)
    return read


def _parsed(digits: str, whole: object) -> float:
    read = number(digits.replace(",", ""))
    if read is None:
        raise _refused(whole)
    return read


def _refused(value: object) -> BadArgument:
    return BadArgument(f"price {shown(value)} has no single meaning; write {PRICE_FORMS}")
