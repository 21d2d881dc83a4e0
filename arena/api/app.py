"""The application: what miners send, what operators do, and what everybody may see.

Thin on purpose: a route authenticates, asks the store or the arena, and shapes the answer. Source and traces
are served only when their embargo is over; before a race has settled neither its scores nor what it drew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import FastAPI, Header, Request, Response

from arena.api import agents, miners, problem_details, races, results, sealed_keys, suites
from arena.api import operators as operator_routes
from arena.api.etags import Tagged
from arena.api.limits import Buckets, Limited
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import SubmissionReceipt
from arena.api.service import SIGNED, Service, signature
from arena.api.signed import Authenticator
from arena.rules import Rules
from arena.screening import Screener
from arena.sealing import Announcement
from arena.submissions import Submissions
from storage.database import Database
from storage.tables import Submission

Registered = Callable[[str], Awaitable[bool]]
Commitment = Callable[[str], Awaitable[tuple[int, str] | None]]

_log = logging.getLogger(__name__)

_CHAIN_DEADLINE_S = 15.0
_ANY_BODY = {
    "requestBody": {
        "required": True,
        "description": "The agent's source file, as it is.",
        "content": {"text/x-python": {"schema": {"type": "string"}}},
    }
}

T = TypeVar("T")


def create_app(
    database: Database,
    rules: Rules,
    *,
    validator_hotkey: str,
    registered: Registered,
    commitment: Commitment,
    screener: Screener,
    clock: Callable[[], datetime],
    operators: Collection[str] = (),
    tick: Callable[[], float] = time.monotonic,
    sealing: Announcement | None = None,
    permitted: Registered | None = None,
) -> FastAPI:
    """The API of one validator.

    `registered` says whether a hotkey is on the subnet; `commitment` gives the block and the SHA-256 (hex)
    that it committed on chain, or None. `screener` reads the sources that are sent. `clock` gives aware UTC
    datetimes, `tick` seconds that never go back. `operators` are the hotkeys (SS58) that may pause, void and
    re-judge races. `sealing` is what miners seal keys of their own to; None: the house pays for all.
    `permitted` says whether a hotkey holds a validator permit; None: nobody does.
    """
    app = FastAPI(title="Agent arena", version="1", description=__doc__)
    app.state.clock = clock
    problem_details.install(app)
    limits = rules.requests
    service = Service(
        database=database,
        rules=rules,
        clock=clock,
        tick=tick,
        hotkey=validator_hotkey,
        operators=frozenset(operators),
        authenticator=Authenticator(database, validator_hotkey, clock),
        buckets=Buckets(limits.hotkey_per_minute, limits.hotkey_burst, keep=limits.remembered),
    )
    by_address = Buckets(limits.address_per_minute, limits.address_burst, keep=limits.remembered)
    app.add_middleware(Tagged)
    app.add_middleware(Limited, buckets=by_address, tick=tick, deadline_s=limits.deadline_s)
    submissions = Submissions(database, rules, clock, screener)

    @app.post(
        "/v1/submissions",
        status_code=201,
        tags=["miners"],
        dependencies=[signature],
        openapi_extra=_ANY_BODY,
        responses=_submit_responses(),
    )
    async def submit(
        request: Request,
        response: Response,
        x_agent_name: Annotated[str, Header(description="What the agent is called on the leaderboard.")],
        x_sealed_key: Annotated[
            str | None,
            Header(
                description="A model key of your own, sealed to `/v1/sealing-key` for this hotkey, source "
                "and endpoint: the endpoint's name, a colon, and the box as base64."
            ),
        ] = None,
    ) -> SubmissionReceipt:
        """Submit an agent, signed by its hotkey. The same source again answers 200 with the first receipt;
        a sealed key that comes with it takes the place of the one before.
        """
        hotkey, source = await service.caller(request, body_limit=rules.source_bytes)
        own_key = None if x_sealed_key is None else sealed_keys.parsed(x_sealed_key, sealing)
        if not await _from_chain(registered(hotkey)):
            raise ApiError("unregistered", f"register {hotkey} on the subnet before submitting")
        committed = await _from_chain(commitment(hotkey))
        accepted = await submissions.accept(
            source=source,
            hotkey=hotkey,
            name=x_agent_name,
            committed=committed,
        )
        if not accepted.new:
            response.status_code = 200
        async with database.session() as session:
            stored = await session.get_one(Submission, accepted.submission_id)
            if own_key is not None:
                await sealed_keys.store(session, stored.id, own_key, clock())
            paid_by = await sealed_keys.paid_by(session, stored.id)
        return SubmissionReceipt(
            submission_id=stored.id,
            source_sha256=stored.source_sha256,
            submitted_at=stored.submitted_at,
            new=accepted.new,
            commitment_block=stored.commitment_block,
            paid_by=paid_by,
        )

    app.include_router(results.routes(service, permitted or _nobody))
    app.include_router(sealed_keys.routes(sealing, validator_hotkey))
    for routes in (miners.routes, races.routes, agents.routes, suites.routes, operator_routes.routes):
        app.include_router(routes(service))
    return app


async def _nobody(_: str) -> bool:
    return False


async def _from_chain(answer: Awaitable[T]) -> T:
    """What the chain says. Raises ApiError `unavailable` when it does not: that is not the miner's fault."""
    try:
        async with asyncio.timeout(_CHAIN_DEADLINE_S):
            return await answer
    except Exception as error:  # the chain client's errors share no base
        _log.warning("the chain does not answer: %r", error)
        raise ApiError("unavailable", "the chain does not answer; try again later") from error


def _submit_responses() -> dict[int | str, dict[str, object]]:
    refusals = (
        "too_large",
        "bad_name",
        "bad_sealed_key",
        "not_utf8",
        "does_not_parse",
        "prohibited",
        "commitment_missing",
        "commitment_mismatch",
        "duplicate",
        "too_similar",
        "cooling_down",
    )
    documented = responses(*SIGNED, *refusals, "unregistered")
    return {200: {"model": SubmissionReceipt, "description": "Already taken"}, **documented}
