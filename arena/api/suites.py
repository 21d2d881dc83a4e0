"""What suites commit to, and their problems as far as agents may know them. No answer is read here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.api.pages import Cursor, Limit, Page, page, place
from arena.api.problem_details import ApiError, responses
from arena.api.schemas import PublishedProblem, SuiteDetail, SuiteSummary
from arena.api.service import NOT_MODIFIED, Service
from problems.problem import Problem
from storage.tables import Race, Suite, SuiteProblem

_SuiteId = Annotated[str, Path(pattern=r"^[!-~]{1,128}$", description="The hash of all that is in it.")]


def routes(service: Service) -> APIRouter:
    """The routes about suites."""
    router = APIRouter(tags=["suites"])
    database = service.database

    @router.get("/v1/suites", responses=responses() | NOT_MODIFIED)
    async def suites(cursor: Cursor = None, limit: Limit = 20) -> Page[SuiteSummary]:
        """All suites, by id."""
        query = select(Suite)
        after = place(cursor, str)
        if after is not None:
            query = query.where(Suite.id > after[0])
        async with database.session() as session:
            rows = (await session.scalars(query.order_by(Suite.id).limit(limit + 1))).all()
        return page(rows, limit, _summary, lambda suite: (suite.id,))

    @router.get("/v1/suites/{suite_id}", responses=responses("not_found") | NOT_MODIFIED)
    async def suite(suite_id: _SuiteId) -> SuiteDetail:
        """One suite's manifest."""
        async with database.session() as session:
            found = await _suite(session, suite_id)
            categories = await session.execute(
                select(SuiteProblem.category, func.count())
                .where(SuiteProblem.suite_id == suite_id)
                .group_by(SuiteProblem.category)
                .order_by(SuiteProblem.category)
            )
        return SuiteDetail(**_summary(found).model_dump(), categories=dict(categories.all()))

    @router.get("/v1/suites/{suite_id}/problems", responses=responses("not_found") | NOT_MODIFIED)
    async def problems(
        suite_id: _SuiteId, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[PublishedProblem]:
        """A suite's problems, by id: all of a public suite, and of a pool what settled races drew."""
        after = place(cursor, str)
        async with database.session() as session:
            found = await _suite(session, suite_id)
            drawn_in = await _drawn(session, suite_id)
            query = select(SuiteProblem.problem_id, SuiteProblem.public).where(
                SuiteProblem.suite_id == suite_id
            )
            if found.role != "public":
                query = query.where(SuiteProblem.problem_id.in_(list(drawn_in)))
            if after is not None:
                query = query.where(SuiteProblem.problem_id > after[0])
            query = query.order_by(SuiteProblem.problem_id).limit(limit + 1)
            rows = (await session.execute(query)).all()
        return page(
            rows,
            limit,
            lambda row: PublishedProblem(
                problem=Problem.model_validate(row.public), drawn_in=drawn_in.get(row.problem_id, ())
            ),
            lambda row: (row.problem_id,),
        )

    return router


async def _suite(session: AsyncSession, suite_id: str) -> Suite:
    found = await session.get(Suite, suite_id)
    if found is None:
        raise ApiError("not_found", "there is no such suite")
    return found


async def _drawn(session: AsyncSession, suite_id: str) -> dict[str, tuple[int, ...]]:
    """The settled races that drew each problem of this pool."""
    rows = await session.execute(
        select(Race.number, Race.drawn)
        .where(Race.pool_suite_id == suite_id, Race.state == "settled", Race.drawn.is_not(None))
        .order_by(Race.number)
    )
    found: dict[str, tuple[int, ...]] = {}
    for number, drawn in rows:
        for problem_id in drawn:
            found[problem_id] = (*found.get(problem_id, ()), number)
    return found


def _summary(suite: Suite) -> SuiteSummary:
    return SuiteSummary(
        suite_id=suite.id,
        name=suite.name,
        role=suite.role,
        environment=suite.environment,
        environment_version=suite.environment_version,
        catalog_id=suite.catalog_id,
        scorer=suite.scorer,
        options=suite.options,
        root=suite.root,
    )
