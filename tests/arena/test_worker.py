"""The worker: whatever goes wrong around an episode is ours, and what it was doing is never lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select

from arena import queue
from arena.rules import Rules
from arena.verdict import Verdict
from arena.worker import Assignment, Worker
from storage.database import Database
from storage.events import Event, EventLog
from storage.tables import Episode, Trace
from tests.arena.stores import NOW, Clock, add_episodes, events, solved, take, unscored

RULES = Rules.load(
    {
        "retry_backoff_s": 0,
        "max_attempts": 2,
        "max_leases": 3,
        "lease_s": 2,
        "heartbeat_s": 0.05,
        "outage_after": 2,
        "outage_pause_s": 0.01,
        "outage_pause_max_s": 0.02,
    }
)


@dataclass(frozen=True)
class Seen:
    verdict: Verdict
    events: Sequence[Event]
    wall_s: float = 0.1


class Instant:
    """Plays an episode without a sandbox: the verdict comes from the test."""

    def __init__(self, verdict: Callable[[Assignment], Verdict]) -> None:
        self._verdict = verdict
        self.played: Counter[UUID] = Counter()
        self.at_once: set[int] = set()
        self.sources: set[bytes] = set()

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        assert slot not in self.at_once
        self.at_once.add(slot)
        await asyncio.sleep(0)
        self.at_once.remove(slot)
        self.played[assignment.leased.episode_id] += 1
        self.sources.add(assignment.source)
        return Seen(self._verdict(assignment), events(assignment.leased.episode_id))


class Stuck:
    """Begins and never ends; says when it began and when it was torn down."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.torn_down = asyncio.Event()

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.torn_down.set()
        raise AssertionError("never gets here")


class Broken:
    """The sandbox, the recorder or the provider's client raises."""

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        raise RuntimeError("no room on the disk")


class Contradictory:
    """Hands over a record that belongs to another episode."""

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        log = EventLog()
        log.append("started", {"episode_id": "another"}, at_ms=0)
        return Seen(solved(), log.events)


class Unreadable:
    """Hands over a record that no trajectory can be made of."""

    async def play(self, assignment: Assignment, slot: int) -> Seen:
        log = EventLog()
        log.append("started", {"episode_id": str(assignment.leased.episode_id)}, at_ms=0)
        log.append("model_call", {"call_id": "model-1"}, at_ms=0)
        return Seen(solved(), log.events)


def worker(
    database: Database, player: object, *, slots: int = 1, rules: Rules = RULES, clock: Clock | None = None
) -> Worker:
    return Worker(database, player, rules, name="w", slots=slots, clock=clock or Clock())  # type: ignore[arg-type]


async def until_done(database: Database, race_id: UUID, *workers: Worker) -> None:
    """Let workers run until no episode of the race is left."""
    stop = asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for one in workers:
            group.create_task(one.run(stop))
        while True:
            async with database.session() as session:
                if not await queue.unfinished(session, race_id, "race"):
                    break
            await asyncio.sleep(0.01)
        stop.set()


async def traces(database: Database) -> list[Trace]:
    async with database.session() as session:
        return list(await session.scalars(select(Trace).order_by(Trace.attempt)))


async def test_several_workers_play_every_episode_once(database: Database) -> None:
    race_id = await add_episodes(database, [f"p{i}" for i in range(20)], rules=RULES)
    player = Instant(lambda _: solved())
    await until_done(
        database, race_id, worker(database, player, slots=2), worker(database, Instant(lambda _: solved()))
    )
    stored = await traces(database)
    assert len({trace.episode_id for trace in stored}) == len(stored) == 20
    assert all(trace.final and trace.verdict == "solved" for trace in stored)
    assert max(player.played.values(), default=1) == 1


async def test_a_player_gets_the_source_and_the_problem_of_the_episode(database: Database) -> None:
    race_id = await add_episodes(database, ["p0"], rules=RULES)
    seen: list[Assignment] = []

    def remember(assignment: Assignment) -> Verdict:
        seen.append(assignment)
        return solved()

    await until_done(database, race_id, worker(database, Instant(remember)))
    assert seen[0].source.startswith(b"# hk")
    assert seen[0].problem.problem.problem_id == "p0"


@pytest.mark.parametrize(
    ("player", "reason"),
    [
        (Broken(), "could not be played (RuntimeError)"),
        (Contradictory(), "contradicts itself"),
        (Unreadable(), "cannot be stored (KeyError)"),
    ],
    ids=["broken", "contradictory", "unreadable"],
)
async def test_whatever_breaks_around_an_episode_makes_it_unscored_and_never_failed(
    database: Database, player: object, reason: str
) -> None:
    race_id = await add_episodes(database, rules=RULES)
    await until_done(database, race_id, worker(database, player))
    stored = await traces(database)
    assert [(t.verdict, t.final) for t in stored] == [("unscored", False), ("unscored", True)]
    assert all(reason in (t.reason or "") for t in stored)


async def test_a_provider_that_comes_back_costs_no_episode(database: Database) -> None:
    """It is down for the first tries; with two attempts an episode, every one is scored in the end."""
    rules = RULES.model_copy(update={"retry_backoff_s": 0.5})
    race_id = await add_episodes(database, [f"p{i}" for i in range(6)], rules=rules)
    down_for = 4
    tries = 0

    def provider(_: Assignment) -> Verdict:
        nonlocal tries
        tries += 1
        return unscored() if tries <= down_for else solved()

    clock = Clock()
    stop = asyncio.Event()
    running = worker(database, Instant(provider), slots=2, rules=rules, clock=clock)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(running.run(stop))
        while True:
            if tries > down_for:  # retries come due only after the outage
                clock.move(seconds=1)
            async with database.session() as session:
                if not await queue.unfinished(session, race_id, "race"):
                    break
            await asyncio.sleep(0.01)
        stop.set()
    final = [t for t in await traces(database) if t.final]
    assert [t.verdict for t in final] == ["solved"] * 6


async def test_an_outage_longer_than_all_attempts_pauses_the_race_and_costs_no_episode(
    database: Database,
) -> None:
    """Probes that fail are given back: three episodes of three attempts live through twenty failures."""
    rules = RULES.model_copy(update={"max_attempts": 3, "max_leases": 60})
    race_id = await add_episodes(database, [f"p{i}" for i in range(3)], rules=rules)
    tries = 0

    def provider(_: Assignment) -> Verdict:
        nonlocal tries
        tries += 1
        return unscored() if tries <= 20 else solved()

    await until_done(database, race_id, worker(database, Instant(provider), rules=rules))
    stored = await traces(database)
    assert [t.verdict for t in stored if t.final] == ["solved"] * 3
    assert len([t for t in stored if not t.final]) <= RULES.outage_after
    assert tries == 23


async def test_an_episode_that_keeps_an_outage_alive_by_itself_ends_unscored(database: Database) -> None:
    race_id = await add_episodes(database, rules=RULES.model_copy(update={"max_attempts": 3}))
    await until_done(database, race_id, worker(database, Instant(lambda _: unscored())))
    assert [(t.verdict, t.final) for t in await traces(database)][-1] == ("unscored", True)


async def test_an_outage_lets_only_one_slot_probe(database: Database) -> None:
    race_id = await add_episodes(database, [f"p{i}" for i in range(12)], rules=RULES)
    at_once = most = played = 0

    class Counting:
        async def play(self, assignment: Assignment, slot: int) -> Seen:
            nonlocal at_once, most, played
            played += 1
            at_once += 1
            if played > 8:
                most = max(most, at_once)
            await asyncio.sleep(0.005)
            at_once -= 1
            return Seen(unscored(), events(assignment.leased.episode_id))

    await until_done(database, race_id, worker(database, Counting(), slots=4))
    assert most == 1


async def test_stopping_tears_down_and_gives_the_episode_back_unplayed(database: Database) -> None:
    await add_episodes(database, rules=RULES)
    player = Stuck()
    stop = asyncio.Event()
    async with asyncio.timeout(30):
        running = asyncio.create_task(worker(database, player).run(stop))
        await player.began.wait()
        stop.set()
        await running
    assert player.torn_down.is_set()
    again = await take(database)
    assert again is not None
    assert again.attempt == 1
    assert await traces(database) == []


async def test_a_worker_whose_lease_was_taken_over_tears_down_and_stores_nothing(database: Database) -> None:
    await add_episodes(database, rules=RULES)
    player = Stuck()
    stop = asyncio.Event()
    async with asyncio.timeout(30):
        running = asyncio.create_task(worker(database, player).run(stop))
        await player.began.wait()
        thief = await take(database, worker="thief", now=NOW + timedelta(hours=1))
        assert thief is not None
        await player.torn_down.wait()
        stop.set()
        await running
    async with database.session() as session:
        episode = await session.get_one(Episode, thief.episode_id)
        assert (episode.state, episode.leased_by, episode.fence) == ("leased", "thief", thief.fence)
        assert await session.scalar(select(func.count()).select_from(Trace)) == 0


async def test_an_episode_that_overruns_its_deadline_is_ended_and_is_unscored(database: Database) -> None:
    player = Stuck()
    sandbox = RULES.sandbox.model_copy(update={"wall_s": 0.05})
    short = RULES.model_copy(update={"sandbox": sandbox, "overrun_s": 0.01})
    race_id = await add_episodes(database, rules=short)
    await until_done(database, race_id, worker(database, player, rules=short))
    assert {t.reason for t in await traces(database)} == {"it overran its deadline"}


async def test_an_episode_that_kills_its_workers_is_not_handed_out_for_ever(database: Database) -> None:
    race_id = await add_episodes(database, rules=RULES)
    clock = Clock()
    for _ in range(RULES.max_leases):
        assert await take(database, worker="dies", now=clock()) is not None
        clock.move(hours=1)
    player = Instant(lambda _: solved())
    await until_done(database, race_id, worker(database, player, clock=clock))
    assert not player.played
    assert [(t.verdict, t.reason) for t in await traces(database)] == [("unscored", queue.LOST)]
