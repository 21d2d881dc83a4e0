"""What operators do, and the log of it, which everybody may read."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import ValidationError
from sqlalchemy import select

from arena.api.pages import Cursor, Limit, Page, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import AuditAnswer, Reason
from arena.api.service import NOT_MODIFIED, SIGNED, Service, numbered_race, signature
from arena.operating import RaceOver, operate
from storage.tables import AuditEntry, Race

_BODY_BYTES = 4096
_REASON = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Reason.model_json_schema()}},
    }
}


def routes(service: Service) -> APIRouter:
    """The routes of operators, and the audit log."""
    router = APIRouter(tags=["operators"])

    @router.post(
        "/v1/races/{number}/{action}",
        dependencies=[signature],
        openapi_extra=_REASON,
        responses=responses(*SIGNED, "not_operator", "not_found", "race_over"),
    )
    async def act(
        request: Request, number: int, action: Literal["pause", "resume", "void", "rejudge"]
    ) -> AuditAnswer:
        """Pause or resume a race, end it without a result, or ask its judge anew about what it left
        unanswered. Signed by an operator; anybody can read in the audit log that it was done, and why.
        """
        hotkey, body = await service.caller(request, body_limit=_BODY_BYTES)
        if hotkey not in service.operators:
            raise ApiError("not_operator", "only hotkeys that this validator names as operators may do it")
        try:
            reason = Reason.model_validate_json(body).reason
        except ValidationError as error:
            raise ApiError("bad_request", f"body: {error.errors()[0]['msg']}") from error
        async with service.database.session() as session:
            race = await numbered_race(session, number)
            try:
                entry = await operate(
                    session, race.id, action, operator=hotkey, reason=reason, now=service.clock()
                )
            except RaceOver as error:
                raise ApiError("race_over", str(error)) from error
            return _shown(entry, number)

    @router.get("/v1/audit", responses=responses() | NOT_MODIFIED)
    async def audit(cursor: Cursor = None, limit: Limit = 20) -> Page[AuditAnswer]:
        """What operators did, the latest first."""
        query = select(AuditEntry, Race.number).outerjoin(Race, Race.id == AuditEntry.race_id)
        after = place(cursor, int)
        if after is not None:
            query = query.where(AuditEntry.id < after[0])
        async with service.database.session() as session:
            rows = (await session.execute(query.order_by(AuditEntry.id.desc()).limit(limit + 1))).all()
        return page(rows, limit, lambda row: _shown(*row), lambda row: (row[0].id,))

    return router


def _shown(entry: AuditEntry, race: int | None) -> AuditAnswer:
    return AuditAnswer(
        number=entry.id,
        at=entry.at,
        operator=entry.operator,
        action=entry.action,
        race=race,
        reason=entry.reason,
        effect=entry.effect,
    )
