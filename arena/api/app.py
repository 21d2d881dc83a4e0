"""The application: what miners send, and what everybody may see.

Thin on purpose: a route authenticates, asks the store or the arena, and shapes the answer. No route can serve
source or traces; before a race has settled none can serve its scores or what it drew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Literal, TypeVar
from uuid import UUID

from fastapi import FastAPI, Header, Query, Request, Response
from sqlalchemy import case, func, select, text
from sqlalchemy.orm import defer

from arena.api import problem_details
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import (
    Health,
    Progress,
    RaceDetail,
    RaceSummary,
    RulesAnswer,
    SubmissionReceipt,
    SubmissionStatus,
)
from arena.api.signed import Authenticator, read_body
from arena.leaderboard import Board, qualifying_board, race_board
from arena.rules import Rules
from arena.submissions import Submissions
from storage.database import Database
from storage.tables import Entrant, Episode, Race, Submission, Suite

Registered = Callable[[str], Awaitable[bool]]
Commitment = Callable[[str], Awaitable[tuple[int, str] | None]]

_log = logging.getLogger(__name__)

_CHAIN_DEADLINE_S = 15.0
_SIGNED = ("bad_signature", "replayed", "unavailable")
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
    clock: Callable[[], datetime],
) -> FastAPI:
    """The API of one validator.

    `registered` says whether a hotkey is on the subnet; `commitment` gives the block and the SHA-256 (hex)
    that it committed on chain, or None. `clock` gives aware UTC datetimes.
    """
    app = FastAPI(title="Agent arena", version="1", description=__doc__)
    app.state.clock = clock
    problem_details.install(app)
    authenticator = Authenticator(database, validator_hotkey, clock)
    submissions = Submissions(database, rules, clock)

    @app.post("/v1/submissions", status_code=201, openapi_extra=_ANY_BODY, responses=_submit_responses())
    async def submit(
        request: Request,
        response: Response,
        x_agent_name: Annotated[str, Header(description="What the agent is called on the leaderboard.")],
    ) -> SubmissionReceipt:
        """Submit an agent, signed by its hotkey. The same source again answers 200 with the first receipt."""
        source = await read_body(request, rules.source_bytes)
        hotkey = await authenticator.caller(request, source)
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
        return SubmissionReceipt(
            submission_id=stored.id,
            source_sha256=stored.source_sha256,
            submitted_at=stored.submitted_at,
            new=accepted.new,
            commitment_block=stored.commitment_block,
        )

    @app.get("/v1/submissions/{submission_id}", responses=responses(*_SIGNED, "not_found", "bad_request"))
    async def submission(request: Request, submission_id: UUID) -> SubmissionStatus:
        """Where one of your own submissions stands. Another hotkey's does not exist for you."""
        hotkey = await authenticator.caller(request, await read_body(request, 0))
        async with database.session() as session:
            found = await session.get(Submission, submission_id)
            if found is None or found.hotkey != hotkey:
                raise ApiError("not_found", "this hotkey has no such submission")
            rows = await session.execute(
                select(
                    Race,
                    Entrant,
                    Episode.phase,
                    func.count(),
                    func.count(case((Episode.state == "done", 1))),
                )
                .join(Entrant, Entrant.race_id == Race.id)
                .join(
                    Episode,
                    (Episode.race_id == Race.id) & (Episode.submission_id == Entrant.submission_id),
                )
                .where(Entrant.submission_id == submission_id)
                .group_by(Race.id, Entrant.race_id, Entrant.submission_id, Episode.phase)
                .order_by(Race.number, Episode.phase)
            )
            progress = tuple(
                Progress(
                    race=race.number,
                    phase=phase,
                    race_state=race.state,
                    role=entrant.role,
                    episodes=episodes,
                    done=done,
                    qualifying_score=entrant.qualifying_score,
                )
                for race, entrant, phase, episodes, done in rows
            )
        return SubmissionStatus(
            submission_id=found.id,
            name=found.name,
            source_sha256=found.source_sha256,
            state=found.state,
            refusal=found.refusal,
            submitted_at=found.submitted_at,
            commitment_block=found.commitment_block,
            progress=progress,
        )

    @app.get("/v1/leaderboard", responses=responses("not_found", "unavailable", "bad_request"))
    async def leaderboard(
        phase: Literal["qualifying", "race"] = "race",
        race: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    ) -> Board:
        """The standings of a race, or of its qualifying: of the latest decided one, unless one is named."""
        async with database.session() as session:
            board = await (race_board if phase == "race" else qualifying_board)(session, race)
        if board is None:
            raise ApiError("not_found", "no such race is decided yet")
        return board

    @app.get("/v1/races", responses=responses("unavailable", "bad_request"))
    async def races(
        before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Only races below it.")] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> list[RaceSummary]:
        """Races, the newest first."""
        query = select(Race).options(defer(Race.settlement)).order_by(Race.number.desc()).limit(limit)
        async with database.session() as session:
            found = (
                await session.scalars(query if before is None else query.where(Race.number < before))
            ).all()
        return [RaceSummary.model_validate(race, from_attributes=True) for race in found]

    @app.get("/v1/races/{number}", responses=responses("not_found", "unavailable", "bad_request"))
    async def race(number: int) -> RaceDetail:
        """One race."""
        async with database.session() as session:
            found = (
                await session.scalar(select(Race).where(Race.number == number))
                if 0 < number < 2**31
                else None
            )
            if found is None:
                raise ApiError("not_found", f"there is no race {number}")
            roots = {
                suite.id: suite.root
                for suite in await session.scalars(
                    select(Suite).where(Suite.id.in_((found.public_suite_id, found.pool_suite_id)))
                )
            }
            entrants = await session.scalar(select(func.count()).where(Entrant.race_id == found.id))
        settled = found.state == "settled"
        return RaceDetail(
            **RaceSummary.model_validate(found, from_attributes=True).model_dump(),
            pool_root=roots[found.pool_suite_id],
            public_root=roots[found.public_suite_id],
            champion=found.champion_id,
            entrants=entrants or 0,
            draw_block=found.draw_block,
            draw_block_hash=found.draw_block_hash,
            drawn=tuple(found.drawn) if settled and found.drawn is not None else None,
            settlement=found.settlement if settled else None,
        )

    @app.get("/v1/rules")
    async def current_rules() -> RulesAnswer:
        """Every constant of the arena."""
        return RulesAnswer(rules_hash=rules.rules_hash, rules=rules.model_dump(mode="json"))

    @app.get("/healthz", responses=responses("unavailable"))
    async def health() -> Health:
        """Whether we can answer at all."""
        async with asyncio.timeout(5), database.session() as session:
            await session.execute(text("SELECT 1"))
        return Health(status="ok", hotkey=validator_hotkey)

    return app


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
        "not_utf8",
        "does_not_parse",
        "prohibited",
        "commitment_missing",
        "commitment_mismatch",
        "duplicate",
        "too_similar",
        "cooling_down",
    )
    documented = responses(*_SIGNED, *refusals, "unregistered", "bad_request", "too_slow")
    return {200: {"model": SubmissionReceipt, "description": "Already taken"}, **documented}
