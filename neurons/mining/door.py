"""What a miner's node serves: its agent's source, to validators that hold a permit, and to nobody else.

A request is signed by the validator's hotkey for this node's, and holds for ten seconds, and once. Only the
source whose hash stands on the chain is served: what the file holds by now may be another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import bittensor as bt
from fastapi import FastAPI, Request, Response

from arena.api import problem_details
from arena.api.limits import Buckets, Limited
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import Health
from arena.api.signed import RETENTION_S, read_body, verified
from neurons.chain_types import ChainError

_log = logging.getLogger(__name__)

SOURCE_PATH = "/v1/agent"
NAME_HEADER = "X-Agent-Name"
_PER_MINUTE = 30.0
_BURST = 15
_REMEMBERED = 4096
_DEADLINE_S = 30.0

Permitted = Callable[[str], Awaitable[bool]]
"""Whether a hotkey holds a validator permit. Raises ChainError when the chain does not say."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A source that the chain shows a commitment to, and what it is to be called."""

    source: bytes
    sha256: str
    name: str


@dataclass(slots=True)
class Shelf:
    """What the node serves now; None while nothing is committed."""

    agent: Agent | None = None


def create_door(
    shelf: Shelf,
    *,
    hotkey: str,
    permitted: Permitted,
    served: Callable[[str], None],
    tick: Callable[[], float] = time.monotonic,
    now_ns: Callable[[], int] = time.time_ns,
) -> FastAPI:
    """The application of one node. `served` is told the hotkey of each validator that got the source."""
    app = FastAPI(title="Agent arena: a miner's node", version="1", description=__doc__)
    problem_details.install(app)
    nonces = bt.http_auth.InMemoryNonceStore(retention=RETENTION_S)
    by_hotkey = Buckets(_PER_MINUTE, _BURST, keep=_REMEMBERED)
    by_address = Buckets(4 * _PER_MINUTE, 4 * _BURST, keep=_REMEMBERED)
    app.add_middleware(Limited, buckets=by_address, tick=tick, deadline_s=_DEADLINE_S)

    @app.get("/healthz")
    async def health() -> Health:
        """Whose node this is: the receiver to sign requests for."""
        return Health(status="ok", hotkey=hotkey)

    @app.get(
        SOURCE_PATH,
        response_class=Response,
        responses=responses("bad_signature", "replayed", "too_large", "not_permitted", "not_found"),
    )
    async def source(request: Request) -> Response:
        """The source that the chain shows this hotkey's commitment to."""
        body = await read_body(request, 0)
        caller = verified(request, body, receiver=hotkey, now_ns=now_ns())
        if not nonces.check_and_store(caller.hotkey_ss58, caller.nonce_ns):
            raise ApiError("replayed", "this nonce was already used; sign every request anew")
        if wait_s := by_hotkey.take(caller.hotkey_ss58, tick()):
            raise ApiError("rate_limited", "this hotkey asks too often", retry_after_s=wait_s)
        if not await _permit(permitted, caller.hotkey_ss58):
            raise ApiError("not_permitted", "sources are for validators that hold a permit on this subnet")
        if (agent := shelf.agent) is None:
            raise ApiError("not_found", "no agent is committed yet; ask again later")
        served(caller.hotkey_ss58)
        headers = {NAME_HEADER: agent.name, "Cache-Control": "no-store"}
        return Response(agent.source, media_type="text/x-python", headers=headers)

    return app


async def _permit(permitted: Permitted, hotkey: str) -> bool:
    try:
        async with asyncio.timeout(_DEADLINE_S / 2):
            return await permitted(hotkey)
    except (ChainError, TimeoutError) as error:
        _log.warning("the chain does not say who holds a permit: %s", error)
        raise ApiError("unavailable", "the chain does not answer; try again later") from error
