"""Lists in pages: each page names the next one by a cursor, which holds the place where this one ended.

A cursor is opaque to clients, and nothing is kept for it: it works on every process and never expires.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from arena.api.problem_details import ApiError

T = TypeVar("T")
Row = TypeVar("Row")

_EPOCH = datetime.fromtimestamp(0, UTC)
_LARGEST = 2**53

Cursor = Annotated[
    str | None, Query(max_length=400, description="`next` of the page before; without it, the first page.")
]
Limit = Annotated[int, Query(ge=1, le=100, description="Entries of a page.")]


class Page(BaseModel, Generic[T]):
    """Some of a list."""

    model_config = ConfigDict(frozen=True)

    items: tuple[T, ...]
    next: str | None
    """The `cursor` of the page after this one; null on the last one."""


def page(
    rows: Sequence[Row], limit: int, shown: Callable[[Row], T], key: Callable[[Row], Sequence[Any]]
) -> Page[T]:
    """A page of at most `limit` rows, from `limit + 1` that were asked for: one too many means there is more.

    `key` is what the list is ordered by: numbers, texts, UUIDs, times.
    """
    kept = rows[:limit]
    more = len(rows) > limit
    return Page(items=tuple(map(shown, kept)), next=cursor(*key(kept[-1])) if more else None)


def cursor(*place: Any) -> str:
    """The cursor for what follows `place`."""
    text = json.dumps([_plain(value) for value in place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def place(given: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """The place in a cursor, as values of `kinds`; None for no cursor. Raises ApiError `bad_request`."""
    if given is None:
        return None
    try:
        values = json.loads(base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True))
        if not isinstance(values, list) or len(values) != len(kinds):
            raise ValueError("another list's cursor")
        return tuple(_typed(value, kind) for value, kind in zip(values, kinds, strict=True))
    except (ValueError, RecursionError, binascii.Error) as error:
        raise ApiError("bad_request", "cursor: give the `next` of a page of this very list") from error


def _plain(value: Any) -> int | str:
    match value:
        case datetime():
            return (value - _EPOCH) // timedelta(microseconds=1)
        case int() | str():
            return value
        case _:
            return str(value)


def _typed(value: Any, kind: type) -> Any:
    if kind is datetime:
        return _EPOCH + timedelta(microseconds=_typed(value, int))
    if kind is int:
        if type(value) is not int or not 0 <= value < _LARGEST:
            raise ValueError("not a number of ours")
        return value
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("not a text of ours")
    return UUID(value) if kind is UUID else value
