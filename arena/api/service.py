"""What every route needs: the store, the rules, the time, and who is asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import bittensor as bt
from fastapi import Request, Security
from fastapi.security import APIKeyHeader
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.api.limits import Buckets
from arena.api.problem_details import ApiError
from arena.api.signed import Authenticator, read_body
from arena.rules import Rules
from storage.database import Database
from storage.tables import Race

SIGNED = ("bad_signature", "replayed", "too_large", "too_slow")
"""What a route may answer to a request that must be signed."""
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "It is as `If-None-Match` has it."}}

signature = Security(
    APIKeyHeader(
        name=bt.http_auth.HEADER_SIGNATURE,
        scheme_name=bt.http_auth.PROTOCOL.replace("/", "-"),
        description=(
            "A request signed by a hotkey (sr25519) with `bittensor.http_auth.sign`: over method, path with "
            "query, body, time and the validator's hotkey, which `/healthz` names. It holds for ten seconds, "
            "and once."
        ),
        auto_error=False,
    )
)
"""Documents that a route must be signed; `Service.caller` makes sure of it."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one validator's API. `clock` gives aware UTC datetimes, `tick` seconds."""

    database: Database
    rules: Rules
    clock: Callable[[], datetime]
    tick: Callable[[], float]
    hotkey: str
    operators: frozenset[str]
    authenticator: Authenticator
    buckets: Buckets
    """By hotkey."""

    def is_signed(self, request: Request) -> bool:
        """Whether a request claims to be signed; `caller` makes sure of it."""
        return bt.http_auth.HEADER_SIGNATURE in request.headers

    async def caller(self, request: Request, *, body_limit: int = 0) -> tuple[str, bytes]:
        """Who signed this request, and its body. Raises what `SIGNED` names, and `rate_limited`."""
        body = await read_body(request, body_limit)
        hotkey = await self.authenticator.caller(request, body)
        wait_s = self.buckets.take(hotkey, self.tick())
        if wait_s:
            raise ApiError(
                "rate_limited",
                "this hotkey asks more often than the rules allow; wait as long as Retry-After says",
                retry_after_s=wait_s,
            )
        return hotkey, body


async def numbered_race(session: AsyncSession, number: int) -> Race:
    """The race with this number. Raises ApiError `not_found`."""
    found = await session.scalar(select(Race).where(Race.number == number)) if 0 < number < 2**31 else None
    if found is None:
        raise ApiError("not_found", f"there is no race {number}")
    return found


def class_of(reason: str | None) -> str | None:
    """The kind of a reason why something failed, without what stands behind its colon: an agent may have
    written that.
    """
    return None if reason is None else reason.partition(":")[0][:60]


def failed_rules(outcome: dict[str, Any] | None) -> tuple[str, ...]:
    """The classes of the rules that did not hold, sorted, without which target they were about.

    A rule is named `target 2.price`, or `budget`; what it wanted is private.
    """
    failures = [] if outcome is None else outcome.get("failures", [])
    return tuple(sorted({str(failure["rule"]).rpartition(".")[2] for failure in failures}))
