"""Who sent a request: signed by a hotkey with `btauth/1`, for this validator, once.

The signature covers method, target, body, receiver and a time-stamped nonce. Only sr25519 is taken: a header
that names another scheme is refused before anything is verified. Used nonces are kept in the database, so
that a request cannot be replayed at another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import bittensor as bt
from fastapi import Request
from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert

from arena.api.problem_details import ApiError
from arena.screening import TooLarge
from storage.database import Database
from storage.tables import RequestNonce

MAX_AGE_S = 10.0
SKEW_S = 2.0
RETENTION_S = 60.0
"""Nonces are kept this long: longer than MAX_AGE_S + SKEW_S, after which a replay is stale anyway."""
PRUNE_EVERY_S = 15.0
BODY_DEADLINE_S = 20.0


class _AcceptAll:
    """A nonce store that stores nothing: the database does, after the signature was found good."""

    retention = RETENTION_S

    def check_and_store(self, hotkey_ss58: str, nonce_ns: int) -> bool:
        return True


class Authenticator:
    """Verifies signed requests addressed to `receiver` (our hotkey)."""

    def __init__(self, database: Database, receiver: str, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._receiver = receiver
        self._clock = clock
        self._pruned: datetime | None = None

    async def caller(self, request: Request, body: bytes) -> str:
        """The hotkey that signed this request. Raises ApiError `bad_signature` or `replayed`."""
        now = self._clock()
        caller = verified(
            request, body, receiver=self._receiver, now_ns=int(now.timestamp() * 1_000_000) * 1_000
        )
        hotkey: str = caller.hotkey_ss58
        if not await self._is_new(hotkey, caller.nonce_ns, now):
            raise ApiError("replayed", "this nonce was already used; sign every request anew")
        return hotkey

    async def _is_new(self, hotkey: str, nonce_ns: int, now: datetime) -> bool:
        async with self._database.session() as session:
            if self._pruned is None or now - self._pruned > timedelta(seconds=PRUNE_EVERY_S):
                self._pruned = now
                await session.execute(
                    delete(RequestNonce).where(RequestNonce.seen_at < now - timedelta(seconds=RETENTION_S))
                )
            stored = await session.scalar(
                insert(RequestNonce)
                .values(sender=hotkey, nonce=str(nonce_ns), seen_at=now)
                .on_conflict_do_nothing()
                .returning(RequestNonce.nonce)
            )
        return stored is not None


def verified(request: Request, body: bytes, *, receiver: str, now_ns: int) -> bt.http_auth.Caller:
    """Who signed this request for `receiver`, at `now_ns` (Unix time in nanoseconds).

    Whether its nonce is new is for the caller to check. Raises ApiError `bad_signature`.
    """
    if bt.http_auth.HEADER_CRYPTO in request.headers:
        raise ApiError("bad_signature", "sign with sr25519: another scheme is not taken")
    target: str = request.scope["raw_path"].decode("latin-1")
    if request.scope["query_string"]:
        target += "?" + request.scope["query_string"].decode("latin-1")
    try:
        return bt.http_auth.verify(
            request.headers,
            body,
            method=request.method,
            path=target,
            self_hotkey_ss58=receiver,
            max_age=MAX_AGE_S,
            allowed_skew=SKEW_S,
            nonce_store=_AcceptAll(),
            now_ns=now_ns,
        )
    except bt.http_auth.AuthError as error:
        raise ApiError("bad_signature", str(error)) from error


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises TooLarge once it is over `limit` bytes, ApiError when it takes too long."""
    too_large = f"the body may have {limit} bytes at most"
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and len(announced) < 20 and int(announced) > limit:
        raise TooLarge(too_large)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise TooLarge(too_large)
    except TimeoutError as error:
        raise ApiError("too_slow", f"the body must arrive within {BODY_DEADLINE_S:g} s") from error
    return bytes(body)
