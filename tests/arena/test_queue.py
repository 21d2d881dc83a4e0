"""The queue: no episode is played by two, stored twice, or lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from arena import queue
from arena.queue import StaleLease
from storage.database import Database
from storage.errors import TraceRefused
from storage.tables import Episode, Race, Trace
from tests.arena.stores import NOW, RULES, add_episodes, failed, finish, solved, take, unscored

EXPIRED = NOW + timedelta(seconds=RULES.lease_s)


async def test_workers_at_the_same_time_get_different_episodes(database: Database) -> None:
    await add_episodes(database, [f"p{i}" for i in range(8)])
    taken = await asyncio.gather(*(take(database, worker=f"w{i}") for i in range(12)))
    found = [lease.episode_id for lease in taken if lease is not None]
    assert len(found) == len(set(found)) == 8
    assert await take(database) is None


async def test_a_row_that_another_transaction_holds_is_skipped_and_not_waited_for(database: Database) -> None:
    await add_episodes(database, ["p0", "p1"])
    async with database.session() as one, database.session() as other:
        first = await queue.lease(one, worker="a", now=NOW, lease_s=45)
        second = await queue.lease(other, worker="b", now=NOW, lease_s=45)
    assert first is not None
    assert second is not None
    assert first.episode_id != second.episode_id


async def test_episodes_are_played_in_order_of_position(database: Database) -> None:
    await add_episodes(database, ["p1", "p0", "p2"])
    order = [(await take(database)).problem_id for _ in range(3)]  # type: ignore[union-attr]
    assert order == ["p1", "p0", "p2"]


async def test_an_expired_lease_is_taken_over_and_the_old_worker_can_write_nothing(
    database: Database,
) -> None:
    await add_episodes(database)
    lost = await take(database, worker="slow")
    assert lost is not None
    assert await take(database, now=EXPIRED - timedelta(seconds=1)) is None
    found = await take(database, worker="quick", now=EXPIRED)
    assert found is not None
    assert (found.episode_id, found.fence) == (lost.episode_id, lost.fence + 1)
    with pytest.raises(StaleLease):
        await finish(database, lost, failed(), now=EXPIRED)
    async with database.session() as session:
        with pytest.raises(StaleLease):
            await queue.heartbeat(session, lost, now=EXPIRED, lease_s=45)
        assert await session.scalar(select(func.count()).select_from(Trace)) == 0
    assert (await finish(database, found, solved(), now=EXPIRED)).final


async def test_a_result_is_stored_once_however_often_it_is_sent(database: Database) -> None:
    await add_episodes(database)
    leased = await take(database)
    assert leased is not None
    both = await asyncio.gather(
        finish(database, leased, solved()), finish(database, leased, solved()), return_exceptions=True
    )
    assert sorted(isinstance(result, StaleLease) for result in both) == [False, True]
    async with database.session() as session:
        assert await session.scalar(select(func.count()).select_from(Trace)) == 1


async def test_a_heartbeat_keeps_the_lease_alive(database: Database) -> None:
    await add_episodes(database)
    leased = await take(database)
    assert leased is not None
    async with database.session() as session:
        await queue.heartbeat(session, leased, now=EXPIRED - timedelta(seconds=5), lease_s=45)
    assert await take(database, now=EXPIRED) is None


async def test_unscored_is_tried_again_later_and_stays_unscored_after_the_last_attempt(
    database: Database,
) -> None:
    race_id = await add_episodes(database)
    now = NOW
    for attempt, wait_s in ((1, 10), (2, 20)):
        leased = await take(database, now=now)
        assert leased is not None
        assert leased.attempt == attempt
        completed = await finish(database, leased, unscored(), now=now)
        assert completed.retry_at == now + timedelta(seconds=wait_s)
        assert await take(database, now=now + timedelta(seconds=wait_s - 1)) is None
        now = completed.retry_at
    leased = await take(database, now=now)
    assert leased is not None
    assert (await finish(database, leased, unscored(), now=now)).final
    async with database.session() as session:
        assert await queue.unfinished(session, race_id, "race") == 0
        traces = (await session.scalars(select(Trace).order_by(Trace.attempt))).all()
    assert [(t.attempt, t.final, t.verdict) for t in traces] == [
        (1, False, "unscored"),
        (2, False, "unscored"),
        (3, True, "unscored"),
    ]


async def test_a_failed_episode_is_the_agents_and_is_not_tried_again(database: Database) -> None:
    await add_episodes(database)
    leased = await take(database)
    assert leased is not None
    assert (await finish(database, leased, failed())).final
    assert await take(database, now=NOW + timedelta(days=1)) is None


async def test_a_released_episode_can_be_taken_at_once_and_costs_no_attempt(database: Database) -> None:
    await add_episodes(database)
    leased = await take(database)
    assert leased is not None
    async with database.session() as session:
        await queue.release(session, leased)
    again = await take(database)
    assert again is not None
    assert (again.attempt, again.fence) == (1, 2)


async def test_a_result_that_cannot_be_stored_leaves_the_lease_as_it_was(database: Database) -> None:
    await add_episodes(database)
    leased = await take(database)
    assert leased is not None
    with pytest.raises(TraceRefused):
        async with database.session() as session:
            await queue.complete(session, leased, verdict=solved(), events=(), wall_s=1, now=NOW, rules=RULES)
    async with database.session() as session:
        episode = await session.get_one(Episode, leased.episode_id)
        assert (episode.state, episode.attempts) == ("leased", 0)


async def test_a_paused_race_hands_nothing_out_and_goes_on_where_it_was(database: Database) -> None:
    race_id = await add_episodes(database, ("p0", "p1"))
    playing = await take(database)
    assert playing is not None
    await _set(database, race_id, paused=True)
    assert await take(database) is None
    assert (await finish(database, playing, solved())).final  # what was being played is kept
    await _set(database, race_id, paused=False)
    taken = await take(database)
    assert taken is not None
    assert taken.problem_id == "p1"


@pytest.mark.parametrize("state", ["void", "settled"])
async def test_nothing_is_handed_out_of_a_race_that_is_over(database: Database, state: str) -> None:
    race_id = await add_episodes(database)
    await _set(database, race_id, state=state)
    assert await take(database) is None


async def _set(database: Database, race_id: UUID, **values: object) -> None:
    async with database.session() as session:
        await session.execute(update(Race).where(Race.id == race_id).values(**values))
