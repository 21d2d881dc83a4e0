"""A race of another validator, checked from what it publishes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI
from sqlalchemy import select, update

from neurons.miner import ValidatorUnreachable
from neurons.peer_race import NotPublished, verify_published
from neurons.serving import serving
from storage.database import Database
from storage.tables import Race, SignedResult
from tests.arena.api.stage import VALIDATOR, Signed, api, asking, assert_problem
from tests.arena.test_deciding_together import OWN, TRUE, Deciding, Others, the_same


@pytest.fixture
async def arena(database: Database) -> Deciding:
    """With one race that was decided by two validators; ours is the one that the API answers for."""
    assert OWN.ss58_address == VALIDATOR.ss58_address
    made = Deciding(database, Others(10, {TRUE: (10, the_same)}))
    await made.decided()
    return made


@pytest.fixture
async def url(arena: Deciding) -> AsyncIterator[str]:
    async with serving(api(arena.database, arena.clock), "127.0.0.1", 0) as served:
        yield served


async def differing(url: str) -> set[str]:
    return {step.name for step in await verify_published(url, 1) if step.status == "differs"}


async def test_a_race_that_nobody_touched_adds_up(url: str) -> None:
    steps = {step.name: step.status for step in await verify_published(url, 1)}
    assert set(steps.values()) == {"same", "not checked"}
    assert {name for name, status in steps.items() if status == "not checked"} == {"draw", "episodes"}


async def test_a_result_that_was_changed_after_it_was_signed_is_found_out(arena: Deciding, url: str) -> None:
    async with arena.database.session() as session:
        row = await session.get_one(SignedResult, (await _race_id(arena), OWN.ss58_address))
        assert row.body is not None
        row.body = row.body.replace(b'"burn":', b'"burn": ')
    assert await differing(url) == {"signature"}


@pytest.mark.parametrize(
    ("column", "value", "step"),
    [("draw_block", 7, "race"), ("rules_hash", "0" * 64, "rules"), ("drawn", ["pool-001"], "race")],
)
async def test_what_it_shows_otherwise_than_it_signed_is_found_out(
    column: str, value: Any, step: str, arena: Deciding, url: str
) -> None:
    async with arena.database.session() as session:
        await session.execute(update(Race).values({column: value}))
    assert await differing(url) == {step}


async def test_a_race_without_a_signed_result_is_said(arena: Deciding, url: str) -> None:
    with pytest.raises(NotPublished, match="has the race settled"):
        await verify_published(url, 2)


async def test_what_is_no_validator_is_told_apart() -> None:
    async with serving(FastAPI(), "127.0.0.1", 0) as served:
        with pytest.raises(ValidatorUnreachable, match=r"--api\.url"):
            await verify_published(served, 1)


async def test_before_a_race_has_settled_its_result_is_for_validators_alone(arena: Deciding) -> None:
    async with arena.database.session() as session:
        await session.execute(update(Race).values(state="judging"))
    async with asking(api(arena.database, arena.clock)) as client:
        assert_problem(await client.get("/v1/races/1/signed"), 403, "not_permitted")
        answer = await client.get("/v1/races/1/signed", auth=Signed(TRUE, arena.clock))
        assert_problem(answer, 403, "not_permitted")


async def _race_id(arena: Deciding) -> UUID:
    async with arena.database.session() as session:
        return (await session.scalars(select(Race.id))).one()
