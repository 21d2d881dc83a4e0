"""Our own result of a race, signed: for validators as soon as we have it, for all once it has settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from sqlalchemy import select

from arena.api.problem_details import ApiError, responses
from arena.api.schemas import SignedAnswer
from arena.api.service import SIGNED, Service, numbered_race, signature
from storage.tables import SignedResult

_log = logging.getLogger(__name__)
_CHAIN_DEADLINE_S = 15.0

Permitted = Callable[[str], Awaitable[bool]]
"""Whether a hotkey holds a validator permit."""


def routes(service: Service, permitted: Permitted) -> APIRouter:
    """The route of signed results."""
    router = APIRouter(tags=["races"])

    @router.get(
        "/v1/races/{number}/signed",
        dependencies=[signature],
        openapi_extra={"security": [{}]},  # once settled, nobody needs to sign
        responses=responses(*SIGNED, "not_permitted", "not_found"),
    )
    async def signed(request: Request, number: int) -> SignedAnswer:
        """Our result of a race as we scored it alone, with our hotkey's signature.

        Before the race has settled only for validators that hold a permit, in a request that they sign.
        """
        asked_by = None
        if service.is_signed(request):
            asked_by, _ = await service.caller(request)
        async with service.database.session() as session:
            race = await numbered_race(session, number)
            found = await session.scalar(
                select(SignedResult).where(SignedResult.race_id == race.id, SignedResult.own)
            )
        if race.state != "settled" and (asked_by is None or not await _permit(permitted, asked_by)):
            raise ApiError("not_permitted", f"race {number} has not settled: its results are for validators")
        if found is None or found.body is None or found.signature is None:
            raise ApiError("not_found", f"we have no signed result of race {number}")
        return SignedAnswer(hotkey=found.hotkey, body=found.body.decode(), signature=found.signature)

    return router


async def _permit(permitted: Permitted, hotkey: str) -> bool:
    try:
        async with asyncio.timeout(_CHAIN_DEADLINE_S):
            return await permitted(hotkey)
    except Exception as error:  # the chain client's errors share no base
        _log.warning("the chain does not answer: %r", error)
        raise ApiError("unavailable", "the chain does not answer; try again later") from error
