"""JSON from hands we do not trust: one value, or one typed error with a sentence.

The one thing to know: the standard parser alone is not safe here. It takes NaN and duplicate keys, turns
`1e999` into infinity without asking, lets lone surrogates and NUL through (which the database and the hash
chain cannot store), spends quadratic time on long integers, and answers deep nesting with a RecursionError.
Size, nesting and item count are therefore checked by a linear scan before anything is built.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 32
"""Arrays and objects inside one another. Deep enough for any JSON Schema that a tool needs."""
MAX_ITEMS = 50_000
"""Array elements and object members, all together."""
MAX_INTEGER = 2**63 - 1
"""Integers beyond 64 bits have no exact form in most stores."""

_BRACKET = re.compile(r"[\[\]{}]")


class StrictJsonError(ValueError):
    """The input is not JSON that we accept. The message says why, without repeating the input."""


class UnstorableText(StrictJsonError):
    """It is JSON, but a string in it holds a character that no store of ours can keep."""


def loads(
    source: bytes | str, *, max_bytes: int, max_depth: int = MAX_DEPTH, max_items: int = MAX_ITEMS
) -> Any:
    """Parse `source`. Raises StrictJsonError, and nothing else, for whatever is wrong with it.

    What is returned holds no NaN, infinity, lone surrogate or NUL, no integer beyond 64 bits, and came from
    objects without duplicate keys; its canonical JSON can always be written.
    """
    text = _decode(source, max_bytes)
    _scan(text, max_depth, max_items)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise StrictJsonError(f"not JSON: {error.msg} at character {error.pos}") from None
    if "\\u" in text:  # a raw NUL or surrogate cannot get this far, only an escaped one
        _check_strings(value)
    return value


def _decode(source: bytes | str, max_bytes: int) -> str:
    if len(source) > max_bytes:
        raise StrictJsonError(f"larger than the {max_bytes} bytes allowed")
    try:
        if isinstance(source, bytes):
            return source.decode()
        size = len(source.encode())
    except UnicodeError:
        raise StrictJsonError("not valid UTF-8") from None
    if size > max_bytes:
        raise StrictJsonError(f"larger than the {max_bytes} bytes allowed")
    return source


def _scan(text: str, max_depth: int, max_items: int) -> None:
    # Without escaped backslashes, and then without escaped quotes, quotes only begin and end strings.
    quoted = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    structure = "".join(quoted.split('"')[::2])
    if sum(map(structure.count, ",[{")) > max_items:
        raise StrictJsonError(f"more than the {max_items} items allowed")
    depth = 0
    for bracket in _BRACKET.findall(structure):
        depth += 1 if bracket in "[{" else -1
        if depth > max_depth:
            raise StrictJsonError(f"nested deeper than the {max_depth} levels allowed")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise StrictJsonError("an object has the same key twice")
    return value


def _constant(name: str) -> Any:
    raise StrictJsonError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise StrictJsonError("a number is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or abs(value := int(text)) > MAX_INTEGER:
        raise StrictJsonError("an integer does not fit in 64 bits")
    return value


def _check_strings(value: Any) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            _check_string(item)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())


def _check_string(text: str) -> None:
    if "\0" in text:
        raise UnstorableText("a string contains the NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnstorableText("a string contains half of a surrogate pair") from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_integer
)
