"""A worker: leases episodes, has them played, stores the results. As many as there are, on any host.

A worker decides nothing. Killed at any moment it loses only the episodes in its hands, whose leases expire.
Whatever goes wrong around an episode makes it Unscored, never Failed; and when everything goes wrong, the
worker probes with one episode at a time and growing pauses, so that an outage of the model provider pauses
the race: a probe that fails gives its episode back and uses up none of its attempts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from arena import queue
from arena.queue import Leased, StaleLease
from arena.rules import Rules
from arena.sandbox.sandbox import SlotQuarantined
from arena.sandbox.slots import NoSlotLeft
from arena.sealing import Sealed
from arena.suites import answered
from arena.verdict import Unscored, Verdict
from problems.problem import AnsweredProblem
from storage.database import Database
from storage.errors import StorageError, TraceRefused
from storage.events import BrokenChain, Event, EventLog
from storage.tables import Race, SealedKey, Submission, SuiteProblem

_log = logging.getLogger(__name__)

_IDLE_FIRST_S = 0.05
_IDLE_MAX_S = 1.0
"""Pauses between looks at an empty queue; doubled from the first to the last, with jitter."""
_TEARDOWN_S = 30.0
"""How long a cancelled episode may take to clean up after itself."""
_STORE_TRIES = 5
_DATABASE_DOWN = (SQLAlchemyError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that is needed to play a leased episode."""

    leased: Leased
    source: bytes
    problem: AnsweredProblem
    rules: Rules
    """Those of the episode's race, which need not be the ones that this worker was started with."""
    sealed: Sealed | None = None
    """The key of a miner that pays himself; None: the house pays."""


class Played(Protocol):
    """What playing an episode gives."""

    @property
    def verdict(self) -> Verdict:
        """Solved, Failed or Unscored."""

    @property
    def events(self) -> Sequence[Event]:
        """What the recorder saw."""

    @property
    def wall_s(self) -> float:
        """How long it took."""


class Player(Protocol):
    """Plays one episode in a slot of this worker. Cancelling it must tear everything down."""

    async def play(self, assignment: Assignment, slot: int) -> Played:
        """Play it. SlotQuarantined says that this slot plays no more; anything else that this raises is taken
        for our failure.
        """


def _tells_of_the_outage(assignment: Assignment, verdict: Verdict) -> bool:
    """Whether a probe says only that the outage lasts: then it costs the episode a lease, but no attempt.

    The last lease is stored like any other, so that an episode that brings about its own outage ends.
    """
    return isinstance(verdict, Unscored) and assignment.leased.fence < assignment.rules.max_leases


@dataclass(frozen=True, slots=True)
class _Abandoned:
    """An episode that our own failure ended, with the little there is to store of it."""

    verdict: Verdict
    events: Sequence[Event]
    wall_s: float = 0.0


class _Outage:
    """Counts episodes in a row that we failed, over all slots, and says how long to pause."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._in_a_row = 0
        self.probe = asyncio.Lock()

    def note(self, verdict: Verdict) -> None:
        self._in_a_row = self._in_a_row + 1 if isinstance(verdict, Unscored) else 0

    @property
    def pause_s(self) -> float | None:
        beyond = self._in_a_row - self._rules.outage_after
        if beyond < 0:
            return None
        return min(self._rules.outage_pause_max_s, self._rules.outage_pause_s * 2.0 ** min(beyond, 30))


class Worker:
    """Plays episodes in `slots` at once until it is told to stop."""

    def __init__(
        self,
        database: Database,
        player: Player,
        rules: Rules,
        *,
        name: str,
        slots: int,
        clock: Callable[[], datetime],
        suites: Collection[str] | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        """`name` says in the database who has a lease. With `suites`, only episodes of those are leased.

        Of `rules`, the worker takes what concerns itself: leases, heartbeats and pauses.
        """
        if slots < 1:
            raise ValueError(f"a worker needs at least one slot, not {slots}")
        self._database = database
        self._player = player
        self._rules = rules
        self._name = name
        self._slots = slots
        self._clock = clock
        self._suites = suites
        self._jitter = jitter or random.Random()
        self._outage = _Outage(rules)
        self._lost: dict[int, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then give back what is in hand, unplayed, and return.

        A slot that is quarantined plays no more. Raises NoSlotLeft when none is left.
        """
        async with asyncio.TaskGroup() as group:
            slots = [group.create_task(self._slot(number)) for number in range(self._slots)]
            stopped = group.create_task(stop.wait())
            while not stop.is_set() and not all(slot.done() for slot in slots):
                waiting: list[asyncio.Task[Any]] = [stopped, *(s for s in slots if not s.done())]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in (stopped, *slots):
                task.cancel()
        if len(self._lost) == self._slots and not stop.is_set():
            raise NoSlotLeft(self._lost)

    async def _slot(self, slot: int) -> None:
        idle_s = _IDLE_FIRST_S
        while True:
            try:
                played = await self._turn(slot)
            except SlotQuarantined as error:
                _log.error("slot %d of %d plays no more: %s", slot, self._slots, error.why)
                self._lost[error.slot] = error.why
                return
            if played:
                idle_s = _IDLE_FIRST_S
            else:
                await asyncio.sleep(idle_s * self._jitter.uniform(0.5, 1.0))
                idle_s = min(_IDLE_MAX_S, 2 * idle_s)

    async def _turn(self, slot: int) -> bool:
        """Play one episode, if there is one. In an outage only one slot does, after a pause."""
        if self._outage.pause_s is None:
            return await self._lease_and_play(slot)
        async with self._outage.probe:
            pause_s = self._outage.pause_s
            if pause_s is not None:
                _log.warning("episodes keep failing on our side; probing again in %.1f s", pause_s)
                await asyncio.sleep(pause_s * self._jitter.uniform(0.75, 1.0))
            return await self._lease_and_play(slot, probing=pause_s is not None)

    async def _lease_and_play(self, slot: int, *, probing: bool = False) -> bool:
        try:
            assignment = await self._lease(slot)
        except _DATABASE_DOWN as error:
            _log.warning("cannot lease: %s", error)
            return False
        if assignment is None:
            return False
        leased = assignment.leased
        try:
            played = await self._play(assignment, slot)
            if probing and _tells_of_the_outage(assignment, played.verdict):
                await self._give_back(leased)
                self._outage.note(played.verdict)
                return True
            try:
                await self._store(assignment, played)
            except StaleLease:
                raise
            except Exception as error:  # noqa: BLE001
                # The boundary of storing: what an agent did must not be able to end the worker.
                _log.exception("the record of episode %s cannot be stored", leased.episode_id)
                played = _abandoned(assignment, _unstorable(error), self._clock())
                await self._store(assignment, played)
        except StaleLease as error:
            _log.warning("%s", error)
        except (asyncio.CancelledError, SlotQuarantined):
            await self._give_back(leased)
            raise
        else:
            self._outage.note(played.verdict)
        return True

    async def _lease(self, slot: int) -> Assignment | None:
        async with self._database.session() as session:
            leased = await queue.lease(
                session,
                worker=f"{self._name}/{slot}",
                now=self._clock(),
                lease_s=self._rules.lease_s,
                suites=self._suites,
            )
            return None if leased is None else await assignment_for(session, leased)

    async def _play(self, assignment: Assignment, slot: int) -> Played:
        """Play under heartbeats. Raises StaleLease when the episode is no longer ours."""
        leased, rules = assignment.leased, assignment.rules
        if leased.fence > rules.max_leases:
            return _abandoned(assignment, queue.LOST, self._clock())
        deadline = asyncio.get_running_loop().time() + rules.sandbox.wall_s + rules.overrun_s
        playing = asyncio.create_task(self._player.play(assignment, slot))
        try:
            while True:
                await asyncio.wait({playing}, timeout=self._rules.heartbeat_s)
                if playing.done():
                    return playing.result()
                if asyncio.get_running_loop().time() > deadline:
                    _log.error("episode %s overran its deadline", leased.episode_id)
                    return _abandoned(assignment, "it overran its deadline", self._clock())
                await self._renew(leased)
        except (asyncio.CancelledError, StaleLease, SlotQuarantined):
            raise
        except Exception as error:  # noqa: BLE001
            # The boundary of playing: whatever escapes from it is our failure, and the episode is retried.
            _log.exception("episode %s could not be played", leased.episode_id)
            return _abandoned(assignment, f"it could not be played ({type(error).__name__})", self._clock())
        finally:
            if not playing.done():
                playing.cancel()
                await asyncio.wait({playing}, timeout=_TEARDOWN_S)

    async def _renew(self, leased: Leased) -> None:
        try:
            async with self._database.session() as session:
                await queue.heartbeat(session, leased, now=self._clock(), lease_s=self._rules.lease_s)
        except _DATABASE_DOWN as error:  # the lease outlasts a few of these
            _log.warning("cannot renew a lease: %s", error)

    async def _store(self, assignment: Assignment, played: Played) -> None:
        """Store a result, through short outages of the database; a longer one costs us the lease."""
        leased = assignment.leased
        for attempt in range(1, _STORE_TRIES + 1):
            try:
                async with self._database.session() as session:
                    await queue.complete(
                        session,
                        leased,
                        verdict=played.verdict,
                        events=played.events,
                        wall_s=played.wall_s,
                        now=self._clock(),
                        rules=assignment.rules,
                    )
                return
            except _DATABASE_DOWN as error:
                if attempt == _STORE_TRIES:
                    raise StaleLease(f"episode {leased.episode_id} could not be stored: {error}") from error
                await asyncio.sleep(0.2 * 2**attempt)

    async def _give_back(self, leased: Leased) -> None:
        try:
            async with asyncio.timeout(_TEARDOWN_S), self._database.session() as session:
                await queue.release(session, leased)
        except _DATABASE_DOWN as error:
            _log.warning("episode %s waits for its lease to expire: %s", leased.episode_id, error)


async def assignment_for(session: AsyncSession, leased: Leased) -> Assignment:
    """Source, problem and rules of a leased episode. Raises StorageError when one is gone."""
    found = await session.execute(
        select(Submission.source, SuiteProblem, Race.rules, Submission.hotkey, Submission.source_sha256)
        .add_columns(SealedKey.endpoint, SealedKey.box)
        .select_from(Submission)
        .outerjoin(SealedKey, SealedKey.submission_id == Submission.id)
        .join(SuiteProblem, SuiteProblem.suite_id == leased.suite_id)
        .join(Race, Race.id == leased.race_id)
        .where(Submission.id == leased.submission_id, SuiteProblem.problem_id == leased.problem_id)
    )
    row = found.one_or_none()
    if row is None or row[0] is None:
        raise StorageError(
            f"episode {leased.episode_id} refers to a submission or problem that is not stored"
        )
    source, problem, rules, hotkey, digest, endpoint, box = row
    sealed = None if box is None else Sealed(hotkey, digest, endpoint, box)
    return Assignment(leased, source, answered(problem), Rules.load(rules), sealed)


def _unstorable(error: Exception) -> str:
    if isinstance(error, TraceRefused | BrokenChain):
        return "its record contradicts itself"
    return f"its record cannot be stored ({type(error).__name__})"


def _abandoned(assignment: Assignment, reason: str, now: datetime) -> _Abandoned:
    at_ms = int(now.timestamp() * 1000)
    log = EventLog()
    started: dict[str, Any] = {
        "episode_id": str(assignment.leased.episode_id),
        "problem": assignment.problem.problem.model_dump(mode="json"),
        "tools": [],
        "model": None,
        "seed": assignment.leased.seed,
        "limits": {},
    }
    log.append("started", started, at_ms=at_ms)
    log.append("ended", {"reason": "fault", "detail": reason, "claim": None}, at_ms=at_ms)
    return _Abandoned(Unscored(reason), log.events)
