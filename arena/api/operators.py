"""What operators do, and the log of it, which everybody may read."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import ValidationError
from sqlalchemy import select

from arena.api.pages import Cursor, Limit, Page, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import AuditAnswer, Reason
from arena.api.service import NOT_MODIFIED, SIGNED, Service, numbered_race, signature
from arena.operating import SUMMARIES, RaceOver, operate
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

    def offer(action: str, summary: str) -> None:
        # A route for each: one with the action as a parameter would take what is meant for other addresses.
        @router.post(
            f"/v1/races/{{number}}/{action}",
            name=action,
            summary=summary,
            dependencies=[signature],
            openapi_extra=_REASON,
            responses=responses(*SIGNED, "not_operator", "not_found", "race_over"),
        )
        async def act(request: Request, number: int) -> AuditAnswer:
            """Signed by an operator. Anybody can read in the audit log that it was done, and why."""
            return await _act(service, request, number, action)

    for action, summary in SUMMARIES.items():
        offer(action, summary)

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


async def _act(service: Service, request: Request, number: int, action: str) -> AuditAnswer:
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
