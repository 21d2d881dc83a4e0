"""Judges what waits in the store as it arrives, on any number of hosts at once.

What the worker hands to a judge is evidence alone; what it stores is a judgement, or that there is none and
why. A judge that fails, in whatever way, leaves the trace unjudged: nothing here can turn that into a grade.
Such a trace is tried again after a pause that doubles, and given up after a count; `storage.judging` says who
may judge what, so that a worker's death neither loses a judgement nor doubles one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from judge.evidence import evidence
from judge.judgement import Judge, Judgement, Unjudged
from storage.database import Database
from storage.events import Event
from storage.judging import IN_FORCE, Claim, Scope, claim, listen, put_down, release, renew
from storage.traces import record_judgement

_log = logging.getLogger(__name__)

JUDGE_DEADLINE_S = 120.0
"""How long one judgement may take before the trace is left unjudged."""
CONCURRENCY = 4
"""Traces that one worker has in hand at a time."""
STORE_ATTEMPTS = 3
"""How often a judgement is offered to a database that does not take it; it may have cost money."""
_STORE_PAUSE_S = 1.0
_DATABASE_PAUSE_S = 5.0
_GIVE_BACK_S = 10.0
_DOWN = (SQLAlchemyError, OSError, TimeoutError)
"""What a database raises that is down for a while."""


@dataclass(frozen=True, slots=True)
class JudgedCount:
    """How many traces got a judgement, and how many the judge could not answer for."""

    judged: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class Backoff:
    """When a trace that the judge could not answer is tried again, and how often."""

    first_s: float = 4.0
    """Pause after the first attempt; it doubles with each further one. Shorter than the pauses of a race
    (`Rules.judge_pause_s`), so that each of its rounds of judging finds the trace due again."""
    most_s: float = 3600.0
    attempts: int = 40
    """Then the trace is given up: after more than a day, so that a day's spending cap does not end it."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_s < 0 or self.most_s < self.first_s:
            raise ValueError("a backoff has at least one attempt, and 0 <= first_s <= most_s")

    def pause_s(self, attempt: int) -> float | None:
        """The pause after the `attempt`-th attempt (from 1); None when there is no further one."""
        if attempt >= self.attempts:
            return None
        return float(min(self.most_s, self.first_s * 2.0 ** min(attempt - 1, 1000)))


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker works; times in seconds."""

    concurrency: int = CONCURRENCY
    deadline_s: float = JUDGE_DEADLINE_S
    hold_s: float = 30.0
    """A worker that was silent this long has lost what it had in hand; a third of it is its heartbeat."""
    poll_s: float = 2.0
    """How often to look without being told: for retries that are due, and where no notice arrives."""
    backoff: Backoff = Backoff()

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"a worker judges at least one trace at a time, not {self.concurrency}")
        if min(self.deadline_s, self.hold_s, self.poll_s) <= 0:
            raise ValueError("deadline_s, hold_s and poll_s are positive")


class JudgeWorker:
    """Claims traces, has them judged, and stores what was said. Runs one `run` or `drain` at a time."""

    def __init__(
        self,
        database: Database,
        judge: Judge,
        *,
        pace: Pace = Pace(),
        scope: Scope = IN_FORCE,
    ) -> None:
        self._database = database
        self._judge = judge
        self._pace = pace
        self._scope = scope
        self._claimant = uuid.uuid4()
        self._held: dict[uuid.UUID, Claim] = {}
        self._tasks: set[asyncio.Task[bool]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Judge what arrives until `stop` is set; what is then in hand goes back as it was.

        A database that is down is waited for.
        """
        wake = asyncio.Event()

        def finished(task: asyncio.Task[bool]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.warning("a judgement could not be stored and is given again: %s", error)
            wake.set()

        async with self._holding(), _running(listen(self._database, wake), _pass_on(stop, wake)):
            while not stop.is_set():
                wake.clear()
                pause_s = self._pace.poll_s
                try:
                    for task in await self._take_up(self._pace.concurrency - len(self._tasks)):
                        task.add_done_callback(finished)
                except _DOWN as error:
                    pause_s = _DATABASE_PAUSE_S
                    _log.warning("cannot judge now, trying again in %.0f s: %s", pause_s, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await wake.wait()

    async def drain(self, limit: int | None = None) -> JudgedCount:
        """Judge at most `limit` traces of those that are due, and return when none is left.

        Raises what the database raises: a store that is down is no property of a trace.
        """
        judged = taken = 0
        async with self._holding():
            while True:
                free = self._pace.concurrency - len(self._tasks)
                taken += len(await self._take_up(free if limit is None else min(free, limit - taken)))
                if not self._tasks:
                    return JudgedCount(judged, taken - judged)
                done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                judged += sum(task.result() for task in done)

    async def _take_up(self, free: int) -> list[asyncio.Task[bool]]:
        """Claim at most `free` traces and begin with them."""
        if free < 1:
            return []
        async with self._database.session() as session:
            claims = await claim(
                session,
                judge=self._judge.name,
                rubric=self._judge.rubric,
                claimant=self._claimant,
                hold_s=self._pace.hold_s,
                limit=free,
                scope=self._scope,
            )
        self._held |= {claimed.trace_id: claimed for claimed in claims}
        begun = [asyncio.create_task(self._judge_one(claimed)) for claimed in claims]
        self._tasks.update(begun)
        return begun

    async def _judge_one(self, claimed: Claim) -> bool:
        """Judge a trace and store what was said; whether that is a grade."""
        backoff = self._pace.backoff
        if claimed.attempt > backoff.attempts:
            said: Judgement | Unjudged = Unjudged(
                f"given up: {claimed.attempt - 1} workers took it up, and none could store what was said"
            )
        else:
            said = await judged_or_reason(self._judge, claimed.events, deadline_s=self._pace.deadline_s)
        retry_in_s = None if isinstance(said, Judgement) else backoff.pause_s(claimed.attempt)
        try:
            return await self._store(claimed, said, retry_in_s) and isinstance(said, Judgement)
        except _DOWN:
            del self._held[claimed.trace_id]  # no longer renewed, so that it ends and is claimed again
            raise

    async def _store(self, claimed: Claim, said: Judgement | Unjudged, retry_in_s: float | None) -> bool:
        """Store what was said and end the claim, together. False when the claim was lost."""
        for attempt in range(1, STORE_ATTEMPTS + 1):
            try:
                async with self._database.session() as session:
                    ours = await put_down(session, claimed, retry_in_s=retry_in_s)
                    if ours:
                        await record_judgement(
                            session,
                            trace_id=claimed.trace_id,
                            judge=claimed.judge,
                            rubric=claimed.rubric,
                            **_row(said),
                        )
                del self._held[claimed.trace_id]
            except _DOWN:
                if attempt == STORE_ATTEMPTS:
                    raise
                await asyncio.sleep(_STORE_PAUSE_S * attempt)
            else:
                return ours
        raise AssertionError("the last attempt returns or raises")

    @contextlib.asynccontextmanager
    async def _holding(self) -> AsyncIterator[None]:
        """Renew what is in hand while the context is open, and give back what is left at its end."""
        async with _running(self._renew()):
            try:
                yield
            finally:
                tasks, self._tasks = self._tasks, set()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                held, self._held = self._held, {}
                with contextlib.suppress(*_DOWN):  # then the claims end by themselves
                    async with asyncio.timeout(_GIVE_BACK_S), self._database.session() as session:
                        await release(session, held.values())

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._pace.hold_s / 3)
            try:
                async with self._database.session() as session:
                    await renew(session, self._held.values(), hold_s=self._pace.hold_s)
            except _DOWN as error:
                _log.warning("cannot renew the claims on %d traces: %s", len(self._held), error)


async def judge_pending(
    database: Database, judge: Judge, *, limit: int, deadline_s: float = JUDGE_DEADLINE_S
) -> JudgedCount:
    """Judge at most `limit` traces that are due and in nobody's hands; see `JudgeWorker.drain`."""
    return await JudgeWorker(database, judge, pace=Pace(deadline_s=deadline_s)).drain(limit)


async def judged_or_reason(
    judge: Judge, events: Sequence[Event], *, deadline_s: float
) -> Judgement | Unjudged:
    """What `judge` says of an episode. Never raises but for cancellation: any failure is `Unjudged`."""
    try:
        async with asyncio.timeout(deadline_s):
            return await judge.judge(await asyncio.to_thread(evidence, events))
    except TimeoutError:
        return Unjudged(f"the judge did not answer within {deadline_s:g} s")
    except Exception as error:  # noqa: BLE001  the boundary: whatever a judge raises, it is no grade
        return Unjudged(f"{type(error).__name__}: {error}")


@contextlib.asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` beside the context, and end it with it."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(stop: asyncio.Event, wake: asyncio.Event) -> None:
    await stop.wait()
    wake.set()


def _row(said: Judgement | Unjudged) -> dict[str, Any]:
    if isinstance(said, Unjudged):
        return {
            "grade": None,
            "gate": None,
            "rationale": None,
            "citations": [],
            "votes": [],
            "disagreement": 0.0,
            "unjudged": said.reason,
        }
    return {
        "grade": said.grade,
        "gate": said.gate,
        "rationale": said.rationale,
        "citations": [citation.to_json() for citation in said.citations],
        "votes": list(said.votes),
        "disagreement": said.disagreement,
        "abstentions": [abstention.to_json() for abstention in said.abstentions],
        "contradicted": said.contradicted,
        "unjudged": None,
    }
