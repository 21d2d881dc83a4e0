"""Model keys of the miners' own: to whom they are sealed, and that one came with a submission.

Nothing here opens a box. What is checked is its form, and that its endpoint is one that keys may go to.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal
from uuid import UUID

from fastapi import APIRouter
from sqlalchemy.ext.asyncio import AsyncSession

from arena.api.problem_details import ApiError, responses
from arena.api.schemas import SealingKeyAnswer
from arena.sealing import SEALED_CHARS, Announcement
from storage.tables import SealedKey

_FORM = re.compile(rf"([\w.-]{{1,64}}):([A-Za-z0-9+/]{{64,{SEALED_CHARS}}}={{0,2}})", re.ASCII)


def routes(sealing: Announcement | None, hotkey: str) -> APIRouter:
    """The announcement."""
    router = APIRouter(tags=["miners"])

    @router.get("/v1/sealing-key", responses=responses("not_found"))
    async def sealing_key() -> SealingKeyAnswer:
        """The key to seal a model key to, signed by the validator. 404 where the house always pays."""
        if sealing is None:
            raise ApiError(
                "not_found", "this validator takes no keys of miners: it pays for the model itself"
            )
        return SealingKeyAnswer(
            public_key=sealing.public_key,
            hotkey=hotkey,
            signature=sealing.signature,
            endpoints=dict(sealing.endpoints),
        )

    return router


def parsed(header: str, sealing: Announcement | None) -> tuple[str, str]:
    """The endpoint and the box. Raises ApiError `bad_sealed_key`."""
    if sealing is None:
        raise ApiError("bad_sealed_key", "this validator takes no keys of miners: leave X-Sealed-Key out")
    found = _FORM.fullmatch(header)
    if found is None:
        raise ApiError("bad_sealed_key", "X-Sealed-Key is the endpoint's name, a colon, and a box as base64")
    endpoint, box = found.groups()
    if endpoint not in sealing.endpoints:
        raise ApiError(
            "bad_sealed_key", f"a key may go to {', '.join(sealing.endpoints)}, and not to {endpoint}"
        )
    return endpoint, box


async def store(session: AsyncSession, submission_id: UUID, own_key: tuple[str, str], now: datetime) -> None:
    """Keep a sealed key for a submission, in place of the one before."""
    endpoint, box = own_key
    await session.merge(SealedKey(submission_id=submission_id, endpoint=endpoint, box=box, sealed_at=now))


async def paid_by(session: AsyncSession, submission_id: UUID) -> Literal["house", "miner"]:
    """Whose key a submission's model calls are made with."""
    return "house" if await session.get(SealedKey, submission_id) is None else "miner"
