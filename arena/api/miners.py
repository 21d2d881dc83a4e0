"""What a hotkey may see of its own submissions: where they stand, and how they did, without any answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from sqlalchemy import Select, and_, case, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from arena import collected
from arena.api.pages import Cursor, Limit, Page, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import CollectionAttempt, Feedback, Progress, SubmissionStatus, SubmissionSummary
from arena.api.service import SIGNED, Service, class_of, failed_rules, signature
from arena.leaderboard import PHASE_OVER
from arena.race_records import reigning
from storage.tables import Entrant, Episode, Judged, Race, Submission, SuiteProblem, Trace


def routes(service: Service) -> APIRouter:
    """The routes of miners, but for submitting itself."""
    router = APIRouter(tags=["miners"], dependencies=[signature])

    @router.get("/v1/submissions", responses=responses(*SIGNED))
    async def submissions(
        request: Request, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[SubmissionSummary]:
        """Your own submissions, the latest first."""
        hotkey, _ = await service.caller(request)
        after = place(cursor, datetime, UUID)
        newest_first = tuple_(Submission.submitted_at, Submission.id)
        query = select(Submission).options(_no_source()).where(Submission.hotkey == hotkey)
        if after is not None:
            query = query.where(newest_first < tuple_(*after))
        query = query.order_by(Submission.submitted_at.desc(), Submission.id.desc()).limit(limit + 1)
        async with service.database.session() as session:
            rows = (await session.scalars(query)).all()
        return page(rows, limit, lambda s: SubmissionSummary(**_fields(s)), lambda s: (s.submitted_at, s.id))

    @router.get("/v1/collections", responses=responses(*SIGNED))
    async def collections(request: Request) -> Page[CollectionAttempt]:
        """What became of collecting from your own node, the latest attempt first."""
        hotkey, _ = await service.caller(request)
        async with service.database.session() as session:
            rows = await collected.attempts(session, hotkey)
        return Page(
            items=tuple(CollectionAttempt.model_validate(row, from_attributes=True) for row in rows),
            next=None,
        )

    @router.get("/v1/submissions/{submission_id}", responses=responses(*SIGNED, "not_found"))
    async def submission(request: Request, submission_id: UUID) -> SubmissionStatus:
        """Where one of your own submissions stands. Another hotkey's does not exist for you."""
        hotkey, _ = await service.caller(request)
        async with service.database.session() as session:
            found = await _own(session, submission_id, hotkey)
            return SubmissionStatus(**_fields(found), progress=await _progress(session, submission_id))

    @router.post(
        "/v1/submissions/{submission_id}/withdraw", responses=responses(*SIGNED, "not_found", "reigns")
    )
    async def withdraw(request: Request, submission_id: UUID) -> SubmissionStatus:
        """Take one of your own submissions out of the races to come. It stays in those that it is in, its
        cooldown runs on, and nobody else may submit its like. A champion reigns until it is beaten.
        """
        hotkey, _ = await service.caller(request)
        async with service.database.session() as session:
            found = await _own(session, submission_id, hotkey)
            if await reigning(session) == submission_id:
                raise ApiError("reigns", "the champion cannot withdraw: submit another agent to succeed it")
            found.withdrawn_at = found.withdrawn_at or service.clock()
            return SubmissionStatus(**_fields(found), progress=await _progress(session, submission_id))

    @router.get("/v1/submissions/{submission_id}/feedback", responses=responses(*SIGNED, "not_found"))
    async def feedback(
        request: Request,
        submission_id: UUID,
        phase: Literal["qualifying", "race"] | None = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> Page[Feedback]:
        """How one of your own agents did, episode by episode, in no order that says anything.

        Of a phase that is over only; which problems a hidden draw held is told once its race has settled.
        """
        hotkey, _ = await service.caller(request)
        after = place(cursor, UUID)
        async with service.database.session() as session:
            await _own(session, submission_id, hotkey)
            query = _played(submission_id, phase)
            if after is not None:
                query = query.where(Episode.id > after[0])
            rows = (await session.execute(query.order_by(Episode.id).limit(limit + 1))).all()
        return page(rows, limit, lambda row: _told(*row), lambda row: (row[1].id,))

    return router


async def _own(session: AsyncSession, submission_id: UUID, hotkey: str) -> Submission:
    found = await session.get(Submission, submission_id, options=[_no_source()])
    if found is None or found.hotkey != hotkey:
        raise ApiError("not_found", "this hotkey has no such submission")
    return found


def _no_source() -> Any:
    return defer(Submission.source, raiseload=True)


def _fields(found: Submission) -> dict[str, Any]:
    return {
        "submission_id": found.id,
        "name": found.name,
        "source_sha256": found.source_sha256,
        "state": "withdrawn" if found.state == "accepted" and found.withdrawn_at else found.state,
        "refusal": found.refusal,
        "submitted_at": found.submitted_at,
        "commitment_block": found.commitment_block,
    }


async def _progress(session: AsyncSession, submission_id: UUID) -> tuple[Progress, ...]:
    rows = await session.execute(
        select(
            Race.number,
            Race.state,
            Entrant.role,
            Entrant.qualifying_score,
            Episode.phase,
            func.count(),
            func.count(case((Episode.state == "done", 1))),
        )
        .join(Entrant, Entrant.race_id == Race.id)
        .join(Episode, (Episode.race_id == Race.id) & (Episode.submission_id == Entrant.submission_id))
        .where(Entrant.submission_id == submission_id)
        .group_by(Race.id, Entrant.race_id, Entrant.submission_id, Episode.phase)
        .order_by(Race.number, Episode.phase)
    )
    return tuple(
        Progress(
            race=number,
            race_state=state,
            role=role,
            qualifying_score=score,
            phase=phase,
            episodes=episodes,
            done=done,
        )
        for number, state, role, score, phase, episodes, done in rows
    )


def _played(submission_id: UUID, phase: str | None) -> Select[Any]:
    """A submission's played episodes of phases that are over, with what the race's own judge said."""
    over = or_(*(and_(Episode.phase == p, Race.state.in_(states)) for p, states in PHASE_OVER.items()))
    counts = and_(Judged.trace_id == Trace.id, Judged.judge == Race.judge, Judged.rubric == Race.rubric)
    query = (
        select(Race, Episode, Trace.verdict, Trace.reason, Trace.outcome, *_COST, SuiteProblem.category)
        .add_columns(Judged.gate, Judged.grade)
        .options(defer(Race.settlement, raiseload=True), defer(Race.rules, raiseload=True))
        .join(Episode, Episode.race_id == Race.id)
        .join(Trace, (Trace.episode_id == Episode.id) & Trace.final)
        .join(
            SuiteProblem,
            (SuiteProblem.suite_id == Episode.suite_id) & (SuiteProblem.problem_id == Episode.problem_id),
        )
        .outerjoin(Judged, counts)
        .where(Episode.submission_id == submission_id, Episode.state == "done", over)
    )
    return query if phase is None else query.where(Episode.phase == phase)


_COST = (
    Trace.model_emitted,
    Trace.scripted,
    Trace.prompt_tokens,
    Trace.completion_tokens,
    Trace.wall_s,
)


def _told(
    race: Race,
    episode: Episode,
    verdict: str,
    reason: str | None,
    outcome: dict[str, Any] | None,
    model_emitted: int,
    scripted: int,
    prompt_tokens: int,
    completion_tokens: int,
    wall_s: float,
    category: str,
    gate: str | None,
    grade: float | None,
) -> Feedback:
    known = episode.phase == "qualifying" or race.state == "settled"
    failed = failed_rules(outcome)
    return Feedback(
        race=race.number,
        phase=episode.phase,
        problem_id=episode.problem_id if known else None,
        category=category,
        repeat=episode.repeat,
        verdict=verdict,
        failed_rules=failed,
        reason=None if failed else class_of(reason),
        gate=gate,
        grade=grade,
        model_emitted=model_emitted,
        scripted=scripted,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        wall_s=wall_s,
    )
