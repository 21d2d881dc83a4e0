"""A worker whose slots are quarantined plays on in the others, and stops with an error when none is left."""

from __future__ import annotations

import asyncio

import pytest

from arena import queue
from arena.rules import Rules
from arena.sandbox.sandbox import SlotQuarantined
from arena.sandbox.slots import NoSlotLeft
from arena.worker import Assignment, Worker
from storage.database import Database
from tests.arena.stores import Clock, add_episodes, solved
from tests.arena.test_worker import Instant, Seen, until_done

RULES = Rules.load({"retry_backoff_s": 0, "max_attempts": 2, "max_leases": 4})


class Quarantined(Instant):
    """Plays in its sound slots; in the others something was left behind."""

    def __init__(self, sound: set[int]) -> None:
        super().__init__(lambda _: solved())
        self._sound = sound

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        if slot not in self._sound:
            raise SlotQuarantined(100 + slot, "process 12 of uid 61100")
        return await super().play(assignment, slot)


def worker(database: Database, player: Quarantined, slots: int) -> Worker:
    return Worker(database, player, RULES, name="w", slots=slots, clock=Clock())


async def test_the_slots_that_are_left_play_every_episode(database: Database) -> None:
    race_id = await add_episodes(database, [f"p{i}" for i in range(6)], rules=RULES)
    player = Quarantined(sound={1})
    await until_done(database, race_id, worker(database, player, slots=2))
    assert sorted(player.played.values()) == [1] * 6


async def test_with_no_slot_left_the_worker_stops_and_its_episodes_wait_for_another(
    database: Database,
) -> None:
    race_id = await add_episodes(database, rules=RULES)
    with pytest.raises(NoSlotLeft, match="slot 100: process 12 of uid 61100"):
        await asyncio.wait_for(worker(database, Quarantined(sound=set()), slots=1).run(asyncio.Event()), 20)
    async with database.session() as session:
        assert await queue.unfinished(session, race_id, "race")
    player = Quarantined(sound={0})
    await until_done(database, race_id, worker(database, player, slots=1))
    assert sorted(player.played.values()) == [1]
