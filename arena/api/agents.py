"""Agents and their traces, for everybody: who they are at once, what they hold once the embargo is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from sqlalchemy import Text, and_, cast, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from arena.api.pages import Cursor, Limit, Page, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.published import public_races
from arena.api.schemas import Agent, TraceSummary
from arena.api.service import NOT_MODIFIED, Service, class_of, failed_rules
from arena.embargo import public_at, races_of
from storage.tables import Episode, Judged, Race, Submission, SuiteProblem, Trace

_SOURCE = "text/x-python"
_RaceNumber = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Only of this race.")]


def routes(service: Service) -> APIRouter:
    """The routes about agents and traces."""
    router = APIRouter(tags=["agents"])
    database = service.database

    @router.get("/v1/agents", responses=responses() | NOT_MODIFIED)
    async def agents(
        hotkey: Annotated[str | None, Query(pattern=r"^[1-9A-HJ-NP-Za-km-z]{1,64}$")] = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[Agent]:
        """Agents, the latest first."""
        query = select(Submission).options(_no_source()).where(Submission.state == "accepted")
        if hotkey is not None:
            query = query.where(Submission.hotkey == hotkey)
        after = place(cursor, datetime, UUID)
        if after is not None:
            query = query.where(tuple_(Submission.submitted_at, Submission.id) < tuple_(*after))
        query = query.order_by(Submission.submitted_at.desc(), Submission.id.desc()).limit(limit + 1)
        async with database.session() as session:
            rows = (await session.scalars(query)).all()
            shown = await _agents(session, rows, service)
        return page(rows, limit, lambda row: shown[row.id], lambda row: (row.submitted_at, row.id))

    @router.get("/v1/agents/{submission_id}", responses=responses("not_found") | NOT_MODIFIED)
    async def agent(submission_id: UUID) -> Agent:
        """One agent."""
        async with database.session() as session:
            found = await _accepted(session, submission_id)
            return (await _agents(session, [found], service))[submission_id]

    @router.get(
        "/v1/agents/{submission_id}/source",
        response_class=Response,
        responses={
            **responses("not_found", "embargoed"),
            **NOT_MODIFIED,
            200: {"content": {_SOURCE: {"schema": {"type": "string"}}}},
        },
    )
    async def source(submission_id: UUID) -> Response:
        """An agent's source, once its first race has settled and the embargo has passed."""
        async with database.session() as session:
            found = await _accepted(session, submission_id)
            races = (await races_of(session, [submission_id]))[submission_id]
            _require_public(public_at(found, races, service.rules), service, "this source")
            text = await session.scalar(select(Submission.source).where(Submission.id == submission_id))
        return Response(text, media_type=f"{_SOURCE}; charset=utf-8")

    @router.get("/v1/traces", responses=responses() | NOT_MODIFIED)
    async def traces(
        race: _RaceNumber = None,
        agent: UUID | None = None,
        verdict: Literal["solved", "failed", "unscored"] | None = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[TraceSummary]:
        """Traces of races whose embargo is over, in the order in which they were recorded."""
        after = place(cursor, datetime, UUID)
        async with database.session() as session:
            open_races = await public_races(session, service.rules, service.clock())
            chosen = [i for i, number in open_races.items() if race is None or race == number]
            query = _summaries().where(Episode.race_id.in_(chosen), Submission.state == "accepted")
            if agent is not None:
                query = query.where(Episode.submission_id == agent)
            if verdict is not None:
                query = query.where(Trace.verdict == verdict)
            if after is not None:
                query = query.where(tuple_(Trace.recorded_at, Trace.id) > tuple_(*after))
            query = query.order_by(Trace.recorded_at, Trace.id).limit(limit + 1)
            rows = (await session.execute(query)).all()
        return page(rows, limit, lambda r: _summary(*r), lambda r: (r[0].recorded_at, r[0].id))

    @router.get("/v1/traces/{trace_id}", responses=responses("not_found", "embargoed") | NOT_MODIFIED)
    async def trace(trace_id: UUID) -> TraceSummary:
        """One trace, without what was said in it."""
        async with database.session() as session:
            row = (await session.execute(_summaries().where(Trace.id == trace_id))).one_or_none()
            if row is None:
                raise ApiError("not_found", "there is no such trace")
            _require_public(public_at(row[3], [row[2]], service.rules), service, "this trace")
        return _summary(*row)

    @router.get(
        "/v1/traces/{trace_id}/atif",
        response_class=Response,
        responses={
            **responses("not_found", "embargoed"),
            **NOT_MODIFIED,
            200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        },
    )
    async def atif(trace_id: UUID) -> Response:
        """The whole trace, as an ATIF document."""
        async with database.session() as session:
            row = (await session.execute(_summaries().where(Trace.id == trace_id))).one_or_none()
            if row is None:
                raise ApiError("not_found", "there is no such trace")
            _require_public(public_at(row[3], [row[2]], service.rules), service, "this trace")
            # As it is stored, unread: a trace may have megabytes.
            stored = await session.scalar(select(cast(Trace.trajectory, Text)).where(Trace.id == trace_id))
        return Response(stored, media_type="application/json")

    return router


def _no_source() -> Any:
    return defer(Submission.source, raiseload=True)


async def _accepted(session: AsyncSession, submission_id: UUID) -> Submission:
    found = await session.get(Submission, submission_id, options=[_no_source()])
    if found is None or found.state != "accepted":
        raise ApiError("not_found", "there is no such agent")
    return found


async def _agents(session: AsyncSession, found: Sequence[Submission], service: Service) -> dict[UUID, Agent]:
    now = service.clock()
    races = await races_of(session, [submission.id for submission in found])
    return {
        submission.id: Agent(
            submission_id=submission.id,
            name=submission.name,
            hotkey=submission.hotkey,
            source_sha256=submission.source_sha256,
            submitted_at=submission.submitted_at,
            commitment_block=submission.commitment_block,
            races=tuple(race.number for race in races[submission.id]),
            public=(at := public_at(submission, races[submission.id], service.rules)) is not None
            and at <= now,
            public_at=at,
        )
        for submission in found
    }


def _require_public(at: datetime | None, service: Service, what: str) -> None:
    if at is None:
        raise ApiError("embargoed", f"{what} becomes public some time after its race has settled")
    if service.clock() < at:
        raise ApiError("embargoed", f"{what} becomes public at {at.isoformat(timespec='seconds')}", until=at)


def _summaries() -> Any:
    """Final traces with all that is shown of them, and with what the race's own judge said."""
    problem = and_(SuiteProblem.suite_id == Episode.suite_id, SuiteProblem.problem_id == Episode.problem_id)
    counts = and_(Judged.trace_id == Trace.id, Judged.judge == Race.judge, Judged.rubric == Race.rubric)
    return (
        select(Trace, Episode, Race, Submission, SuiteProblem.category, Judged)
        .options(
            defer(Trace.events, raiseload=True),
            defer(Trace.trajectory, raiseload=True),
            defer(Race.settlement, raiseload=True),
            defer(Race.drawn, raiseload=True),
            _no_source(),
        )
        .join(Episode, Trace.episode_id == Episode.id)
        .join(Race, Episode.race_id == Race.id)
        .join(Submission, Episode.submission_id == Submission.id)
        .join(SuiteProblem, problem)
        .outerjoin(Judged, counts)
        .where(Trace.final)
    )


def _summary(
    trace: Trace, episode: Episode, race: Race, agent: Submission, category: str, judged: Judged | None
) -> TraceSummary:
    failed = failed_rules(trace.outcome)
    return TraceSummary(
        trace_id=trace.id,
        race=race.number,
        phase=episode.phase,
        agent=episode.submission_id,
        agent_name=agent.name,
        problem_id=episode.problem_id,
        category=category,
        repeat=episode.repeat,
        verdict=trace.verdict,
        failed_rules=failed,
        reason=None if failed else class_of(trace.reason),
        judge=None if judged is None else judged.judge,
        rubric=None if judged is None else judged.rubric,
        gate=None if judged is None else judged.gate,
        grade=None if judged is None else judged.grade,
        model_emitted=trace.model_emitted,
        scripted=trace.scripted,
        prompt_tokens=trace.prompt_tokens,
        completion_tokens=trace.completion_tokens,
        wall_s=trace.wall_s,
        recorded_at=trace.recorded_at,
        chain_head=trace.chain_head,
    )
