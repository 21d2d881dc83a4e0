"""Races, standings and rules, for everybody; scores, and what was drawn, once a race has settled."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from sqlalchemy import func, select, text
from sqlalchemy.orm import defer

from arena.api.pages import Cursor, Limit, Page, cursor, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.published import race_public_at
from arena.api.schemas import Health, ProblemResult, RaceDetail, RaceSummary, RulesAnswer, Standings
from arena.api.service import NOT_MODIFIED, Service, class_of, numbered_race
from arena.leaderboard import qualifying_board, race_board
from storage.tables import Entrant, Race, Suite, SuiteProblem

_HEALTH_DEADLINE_S = 5.0


def routes(service: Service) -> APIRouter:
    """The routes about races."""
    router = APIRouter(tags=["races"])
    database = service.database

    @router.get("/v1/leaderboard", responses=responses("not_found") | NOT_MODIFIED)
    async def leaderboard(
        phase: Literal["qualifying", "race"] = "race",
        race: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Its number.")] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Standings:
        """The standings of a race, or of its qualifying: of the latest decided one, unless one is named."""
        named, begin = place(cursor, int, int) or (race, 0)
        async with database.session() as session:
            board = await (race_board if phase == "race" else qualifying_board)(session, named)
        if board is None:
            raise ApiError("not_found", "no such race is decided yet")
        return Standings(
            race=board.race,
            phase=board.phase,
            rows=board.rows[begin : begin + limit],
            withdrawn=board.withdrawn,
            next=_next_rows(board.race, begin + limit, len(board.rows)),
        )

    @router.get("/v1/races", responses=responses() | NOT_MODIFIED)
    async def races(cursor: Cursor = None, limit: Limit = 20) -> Page[RaceSummary]:
        """Races, the newest first."""
        query = select(Race).options(defer(Race.settlement), defer(Race.rules), defer(Race.drawn))
        after = place(cursor, int)
        if after is not None:
            query = query.where(Race.number < after[0])
        async with database.session() as session:
            rows = (await session.scalars(query.order_by(Race.number.desc()).limit(limit + 1))).all()
        return page(rows, limit, _summary, lambda race: (race.number,))

    @router.get("/v1/races/{number}", responses=responses("not_found") | NOT_MODIFIED)
    async def race(number: int) -> RaceDetail:
        """One race."""
        async with database.session() as session:
            found = await numbered_race(session, number)
            suites = (found.public_suite_id, found.pool_suite_id)
            rows = await session.execute(select(Suite.id, Suite.root).where(Suite.id.in_(suites)))
            roots = dict(rows.all())
            entrants = await session.scalar(select(func.count()).where(Entrant.race_id == found.id))
        settled = found.state == "settled"
        public_at = race_public_at(found, service.rules)
        shown = found.settlement if settled else None
        if shown is not None and (public_at is None or service.clock() < public_at):
            shown = _with_classes(shown)
        return RaceDetail(
            **_summary(found).model_dump(),
            pool_suite=found.pool_suite_id,
            public_suite=found.public_suite_id,
            pool_root=roots[found.pool_suite_id],
            public_root=roots[found.public_suite_id],
            champion=found.champion_id,
            entrants=entrants or 0,
            draw_block=found.draw_block,
            draw_block_hash=found.draw_block_hash,
            drawn=tuple(found.drawn) if settled and found.drawn is not None else None,
            settlement=shown,
            public_at=public_at,
        )

    @router.get("/v1/races/{number}/results", responses=responses("not_found") | NOT_MODIFIED)
    async def results(number: int, cursor: Cursor = None, limit: Limit = 100) -> Page[ProblemResult]:
        """How everybody did on each problem that a settled race drew, in order of play."""
        begin = (place(cursor, int) or (0,))[0]
        async with database.session() as session:
            found = await numbered_race(session, number)
            if found.state != "settled" or found.settlement is None:
                raise ApiError("not_found", f"race {number} has not settled")
            drawn = list(enumerate(found.drawn or ()))[begin : begin + limit + 1]
            categories = await session.execute(
                select(SuiteProblem.problem_id, SuiteProblem.category).where(
                    SuiteProblem.suite_id == found.pool_suite_id,
                    SuiteProblem.problem_id.in_([problem_id for _, problem_id in drawn]),
                )
            )
            category = dict(categories.all())
        settlement = found.settlement

        def shown(numbered: tuple[int, str]) -> ProblemResult:
            _, problem_id = numbered
            left_out = settlement["problems"]["left_out"].get(problem_id)
            return ProblemResult(
                problem_id=problem_id,
                category=category[problem_id],
                counted=left_out is None,
                left_out=class_of(left_out),
                scores={
                    agent["agent"]: agent["by_problem"][problem_id]
                    for agent in settlement["agents"]
                    if problem_id in agent["by_problem"]
                },
            )

        return page(drawn, limit, shown, lambda numbered: (numbered[0] + 1,))

    @router.get("/v1/races/{number}/rules", responses=responses("not_found") | NOT_MODIFIED)
    async def rules_of(number: int) -> RulesAnswer:
        """The rules that a race was opened with: whatever changed since, it is run and settled by these."""
        async with database.session() as session:
            found = await numbered_race(session, number)
        return RulesAnswer(rules_hash=found.rules_hash, rules=found.rules)

    @router.get("/v1/rules", responses=responses() | NOT_MODIFIED)
    async def rules() -> RulesAnswer:
        """Every constant of the arena, as the next race will be opened with."""
        return RulesAnswer(rules_hash=service.rules.rules_hash, rules=service.rules.model_dump(mode="json"))

    @router.get("/healthz", responses=responses() | NOT_MODIFIED)
    async def health() -> Health:
        """Whether we can answer at all."""
        async with asyncio.timeout(_HEALTH_DEADLINE_S), database.session() as session:
            await session.execute(text("SELECT 1"))
        return Health(status="ok", hotkey=service.hotkey)

    return router


def _summary(race: Race) -> RaceSummary:
    return RaceSummary.model_validate(race, from_attributes=True)


def _next_rows(race: int, end: int, rows: int) -> str | None:
    """Names the race too: while somebody pages through the latest one, the next may settle."""
    return cursor(race, end) if end < rows else None


def _with_classes(settlement: dict[str, Any]) -> dict[str, Any]:
    """A settlement whose reasons for problems that were left out are cut to their kind."""
    problems = settlement["problems"]
    left_out = {problem: class_of(reason) for problem, reason in problems["left_out"].items()}
    return settlement | {"problems": problems | {"left_out": left_out}}
