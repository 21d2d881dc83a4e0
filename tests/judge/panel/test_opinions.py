"""What single judges said and what it cost, in a real database shared by panels, workers and kills."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from judge.endpoint import SpendCapReached
from judge.evidence import Evidence, evidence
from judge.judgement import Judgement, Unjudged
from judge.opinions import NANODOLLARS, StoredOpinions
from judge.scripted_judge import Asked, Response, at_first, dropping, failing, gullible, honest, saying, slow
from judge.worker import judge_pending
from storage import traces
from storage.database import Database
from storage.tables import Judged, Opinion
from tests.judge.episodes import CLOSING, COMPARISON, Episode
from tests.judge.panel.conftest import Court, episode
from tests.storage.episodes import add_episodes

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)


def _opinions(
    database: Database, cap: float = 1.0, now: Callable[[], datetime] = lambda: NOW
) -> StoredOpinions:
    return StoredOpinions(database, cap=cap, clock=now)


async def _counted(database: Database, column: Any) -> int:
    async with database.session() as session:
        return await session.scalar(select(func.count(column))) or 0


async def _opinions_kept(database: Database, number: int) -> None:
    """Wait for so many; the caller bounds the wait."""
    while await _counted(database, Opinion.id) < number:  # noqa: ASYNC110  they come from elsewhere
        await asyncio.sleep(0.01)


async def _trace(database: Database) -> Episode:
    """A stored trace that waits for a judgement."""
    (episode_id,) = await add_episodes(database, 1)
    log = Episode(episode_id=str(episode_id)).search().think(COMPARISON).recommend(CLOSING)
    async with database.session() as session:
        await traces.append(
            session,
            episode_id=episode_id,
            attempt=1,
            final=True,
            verdict="failed",
            reason="product",
            outcome={"components": {"product": 0.0}, "solved": False, "scorer": "r", "failures": []},
            events=log.events,
            wall_s=1.0,
        )
    return log


async def test_what_was_answered_once_is_not_asked_again(
    court: Court, database: Database, seen: Evidence
) -> None:
    scripts = {"a": honest(2), "b": honest(3), "c": honest(4)}
    first = await (await court.seat(scripts, _opinions(database))).judge(seen)
    again = await court.seat({model: failing(500) for model in scripts}, _opinions(database, cap=0))
    second = await again.judge(seen)
    assert isinstance(first, Judgement)
    assert second == first
    assert court.judges.asked == []
    assert isinstance(await again.judge(episode(" Other evidence.")), Unjudged)


async def test_abstentions_are_not_kept_as_opinions(court: Court, database: Database, seen: Evidence) -> None:
    panel = await court.seat({"a": at_first(2, saying("well"), honest(4))}, _opinions(database))
    assert isinstance(await panel.judge(seen), Unjudged)
    assert await _counted(database, Opinion.id) == 0
    assert isinstance(await panel.judge(seen), Judgement)
    assert await _counted(database, Opinion.id) == 1


async def test_of_two_answers_at_once_the_first_stands(
    database: Database, court: Court, seen: Evidence
) -> None:
    opinions = _opinions(database)
    panels = [await court.seat({"a": honest(passed)}, opinions) for passed in (2, 5)]
    one, other = await asyncio.gather(*(panel.judge(seen) for panel in panels))
    assert isinstance(one, Judgement)
    assert one == other
    assert await _counted(database, Opinion.id) == 1


async def test_the_day_s_money_is_counted_for_all_processes_together(
    court: Court, database: Database
) -> None:
    price = {"prompt_price": 1.0, "completion_price": 1.0, "max_tokens": 1000}
    cost = 1200 * 1000 / NANODOLLARS
    panels = [await court.seat({"a": honest(2)}, _opinions(database), config=price) for _ in range(2)]
    for number, panel in enumerate(panels):
        await panel.judge(episode(f" Note {number}."))
    assert await _opinions(database).spent_today() == pytest.approx(2 * cost)


async def test_over_the_cap_nothing_is_asked_until_the_next_day(court: Court, database: Database) -> None:
    now = NOW
    price = {"prompt_price": 1.0, "completion_price": 1.0, "max_tokens": 1000}
    opinions = _opinions(database, cap=0.012, now=lambda: now)
    panel = await court.seat({"a": honest(2)}, opinions, config=price)
    said = [await panel.judge(episode(f" Note {number}.")) for number in range(8)]
    stopped = [one for one in said if isinstance(one, Unjudged)]
    assert {one.reason for one in stopped} == {"spend cap reached until 2026-03-02 00:00 UTC"}
    assert 0 < len(stopped) < 8
    assert court.judges.count("a") == 8 - len(stopped)
    assert await opinions.spent_today() <= 0.012
    now += timedelta(hours=1)
    assert isinstance(await panel.judge(episode(" Note 7.")), Judgement)


async def test_many_at_once_never_set_aside_more_than_the_cap(database: Database) -> None:
    opinions = _opinions(database, cap=10 / NANODOLLARS)

    async def reserve() -> bool:
        try:
            await opinions.reserve(3)
        except SpendCapReached:
            return False
        return True

    assert sum(await asyncio.gather(*(reserve() for _ in range(12)))) == 3
    assert await opinions.spent_today() == pytest.approx(9 / NANODOLLARS)


async def test_what_is_settled_after_midnight_counts_on_the_day_it_was_set_aside(database: Database) -> None:
    now = NOW
    opinions = _opinions(database, cap=10 / NANODOLLARS, now=lambda: now)
    day = await opinions.reserve(8)
    now += timedelta(hours=1)
    await opinions.reserve(5)
    await opinions.settle(8, 2, day)
    assert await opinions.spent_today() == pytest.approx(5 / NANODOLLARS)
    now -= timedelta(hours=1)
    assert await opinions.spent_today() == pytest.approx(2 / NANODOLLARS)


async def test_a_request_of_unknown_cost_counts_in_full(
    court: Court, database: Database, seen: Evidence
) -> None:
    price = {"prompt_price": 1.0, "completion_price": 1.0}
    panel = await court.seat({"a": dropping()}, _opinions(database), config=price)
    await panel.judge(seen)
    assert await _opinions(database).spent_today() > 4096 * 1000 / NANODOLLARS


async def test_a_panel_that_is_killed_goes_on_without_asking_or_judging_twice(
    court: Court, database: Database
) -> None:
    """Two members have answered and the third has not when the judgement is broken off."""
    log = await _trace(database)
    never = asyncio.get_running_loop().create_future()
    scripts = {"a": honest(4), "b": honest(4), "c": at_first(1, slow(never, honest(0)), honest(4))}
    panel = await court.seat(scripts, _opinions(database))
    broken = asyncio.create_task(panel.judge(evidence(log.events)))
    async with asyncio.timeout(20):
        await _opinions_kept(database, 2)
    broken.cancel()
    with pytest.raises(asyncio.CancelledError):
        await broken
    for _ in range(2):
        await judge_pending(database, panel, limit=9)
    assert [court.judges.count(model) for model in "abc"] == [1, 1, 2]
    assert (await _counted(database, Opinion.id), await _counted(database, Judged.id)) == (3, 1)
    never.cancel()
    async with database.session() as session:
        row = (await session.scalars(select(Judged))).one()
    assert (row.grade, row.judge, len(row.votes)) == (0.9, panel.name, 3)


async def test_a_killed_process_leaves_what_was_answered_and_counts_what_it_may_have_spent(
    court: Court, database: Database, database_url: str, seen: Evidence
) -> None:
    third_asked, never = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def stuck(asked: Asked) -> Response:
        third_asked.set()
        await asyncio.shield(never)
        raise AssertionError("unreachable")

    scripts = {"a": honest(4), "b": honest(4), "c": at_first(1, stuck, honest(4))}
    price = {"prompt_price": 1.0, "completion_price": 1.0}
    panel = await court.seat(scripts, _opinions(database, now=lambda: datetime.now(UTC)), config=price)
    argv = ("-m", "tests.judge.panel.judging_process", database_url, court.judges.base_url, *scripts)
    process = await asyncio.create_subprocess_exec(sys.executable, *argv)
    async with asyncio.timeout(60):
        await third_asked.wait()
        await _opinions_kept(database, 2)
        process.kill()
        await process.wait()
    worst = panel.members[2].config.worst_cost(court.judges.asked[0].body["messages"])
    spent = await panel.opinions.spent_today() * NANODOLLARS  # type: ignore[attr-defined]
    assert spent == pytest.approx(2 * 1200 * 1000 + worst)
    said = await panel.judge(seen)
    assert isinstance(said, Judgement)
    assert len(said.votes) == 3
    assert [court.judges.count(model) for model in "abc"] == [1, 1, 2]
    assert await _counted(database, Opinion.id) == 3
    never.cancel()


async def test_who_abstained_and_that_the_auditor_differed_is_stored_with_the_judgement(
    court: Court, database: Database
) -> None:
    await _trace(database)
    panel = await court.seat({"a": honest(5), "b": gullible()}, _opinions(database), quorum=1, audit=1)
    await judge_pending(database, panel, limit=9)
    async with database.session() as session:
        row = (await session.scalars(select(Judged))).one()
    assert (row.grade, row.contradicted) == (1.0, True)
    assert [abstention["judge"] for abstention in row.abstentions or []] == ["b"]
    assert "followed the evidence" in (row.abstentions or [{}])[0]["reason"]


async def test_a_spent_day_leaves_traces_waiting(court: Court, database: Database) -> None:
    await _trace(database)
    price = {"prompt_price": 1.0, "completion_price": 1.0}
    panel = await court.seat({"a": honest(5)}, _opinions(database, cap=0), config=price)
    await judge_pending(database, panel, limit=9)
    async with database.session() as session:
        row = (await session.scalars(select(Judged))).one()
    assert row.grade is None
    assert (row.unjudged or "").startswith("spend cap reached until 2026-03-02")
