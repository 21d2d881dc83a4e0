"""The life of a race: qualifying, drawing, racing, judging, settled; or void, when it could not be fair.

All of its state is in the database. `advance` looks at it and does the next thing, in one transaction with
the race's row locked: it can be called at any time, by any number of processes, and after a kill at any
point, and does each thing once. A race runs by the rules that it was opened with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from arena import missed
from arena.agreeing import Agreement, keep
from arena.credits import trace_credits
from arena.draws import draw_problems
from arena.entries import QUALIFYING, RACE, add_entrants, candidates, expose, qualify, qualifying_scores
from arena.queue import unfinished
from arena.race_records import (
    PhaseResults,
    locked,
    phase_results,
    queue_episodes,
    race_inputs,
    reigning,
    standings,
)
from arena.rules import Rules
from arena.settlement import Settlement, Voided, settle, void_reason
from arena.signed_results import Heard, Others, result_of
from arena.suites import keep_suites, stored_suites
from problems.rotation import PoolTooSmall
from storage.database import Database
from storage.tables import Race, Reign, Suite
from storage.traces import StoredTrace

_log = logging.getLogger(__name__)

OVER = frozenset({"settled", "void"})
"""States that a race does not leave."""

_OPENING_LOCK = 0x6F70656E
"""Key of the advisory lock under which a race is opened: "open" in ASCII."""
_BLOCK_DEADLINE_S = 60.0


class BlockSource(Protocol):
    """The chain's blocks, which nobody can foresee."""

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str] | None:
        """Number and hash of the first block at or after `when`; None when there is none yet."""


class EntryClosed(Exception):
    """The race takes no more entrants; the next one will."""


class RaceEngine:
    """Opens races, takes entrants, and moves races forward."""

    def __init__(
        self,
        database: Database,
        rules: Rules,
        *,
        clock: Callable[[], datetime],
        blocks: BlockSource,
        judge: str,
        rubric: str,
        judge_pending: Callable[[], Awaitable[object]],
        accepts_into_corpus: Callable[[StoredTrace], bool],
        others: Others | None = None,
    ) -> None:
        """`judge` and `rubric` say whose judgements count; `judge_pending` lets that judge work on some of
        what waits in the store; `accepts_into_corpus` says which traces earn credit. `others` are the other
        validators, for rules by which all decide together. `clock` gives aware UTC datetimes.
        """
        self._database = database
        self._rules = rules
        self._clock = clock
        self._blocks = blocks
        self._judged_by = (judge, rubric)
        self._judge_pending = judge_pending
        self._accepts = accepts_into_corpus
        self._others = others
        self._agreement = None if others is None else Agreement(database, others, clock)

    async def open_race(
        self,
        public_suite_id: str,
        pool_suite_id: str,
        *,
        founding_champion: UUID | None = None,
        boundary_at: datetime | None = None,
        number: int | None = None,
    ) -> UUID:
        """Open a race and return its id; with one still running, return that one's.

        The champion is carried over from the last promotion; before the first, `founding_champion` (an
        accepted submission, a baseline say) holds the top. Entry closes at `boundary_at`; with None, when
        everybody who entered has qualified. `number` is the race's, where validators must agree on it; else
        it is the one after the last, as it is when that is larger. Raises LookupError when a suite is not
        stored.
        """
        async with self._database.session() as session:
            await session.execute(select(func.pg_advisory_xact_lock(_OPENING_LOCK)))
            running = await session.scalar(select(Race.id).where(Race.state.not_in(OVER)).limit(1))
            if running is not None:
                return running
            for suite_id in (public_suite_id, pool_suite_id):
                if await session.get(Suite, suite_id) is None:
                    raise LookupError(f"suite {suite_id} is not stored; store it before opening a race")
            last = await session.scalar(select(func.max(Race.number)))
            champion = await reigning(session) or founding_champion
            judge, rubric = self._judged_by
            race = Race(
                number=max((last or 0) + 1, number or 1),
                state="qualifying",
                rules=self._rules.model_dump(mode="json"),
                rules_hash=self._rules.rules_hash,
                public_suite_id=public_suite_id,
                pool_suite_id=pool_suite_id,
                champion_id=champion,
                judge=judge,
                rubric=rubric,
                opened_at=self._clock(),
                boundary_at=boundary_at,
            )
            session.add(race)
            await session.flush()
            if champion is not None:
                await add_entrants(session, race, {champion: "champion"}, self._clock())
            return race.id

    async def catch_up(self, public: str, pool: str, *, until: int) -> list[int]:
        """Take over what the others drew in races before number `until` that we missed; their numbers.

        Raises what the chain's being down raises. Without effect where each validator decides by itself.
        """
        if self._others is None or self._rules.consensus == "own":
            return []
        async with self._database.session() as session:
            last = await session.scalar(select(func.max(Race.number)))
            root = (await session.get_one(Suite, pool)).root
        if last is None:
            return []
        recorded: list[int] = []
        for number in range(max(last + 1, until - missed.MOST), until):
            _, heard = await self._others.ask(number, known={})
            found = missed.taken_place(
                heard, number=number, rules_hash=self._rules.rules_hash, pool_root=root
            )
            if found is None:
                continue
            async with self._database.session() as session:
                await session.execute(select(func.pg_advisory_xact_lock(_OPENING_LOCK)))
                if await session.scalar(select(Race.id).where(Race.number >= number).limit(1)) is not None:
                    continue
                await missed.record(
                    session, found, rules=self._rules, public=public, pool=pool, now=self._clock()
                )
            recorded.append(number)
        return recorded

    async def enter(self, race_id: UUID, submissions: Sequence[UUID] | None = None) -> list[UUID]:
        """Enter accepted submissions and queue their qualifying; return those that are new in the race.

        With None, every hotkey's latest accepted submission is entered. A hotkey has one challenger in a
        race; a second one waits for the next race. Raises EntryClosed after the boundary.
        """
        async with self._database.session() as session:
            race = await locked(session, race_id)
            if race.state != "qualifying" or (race.boundary_at and self._clock() >= race.boundary_at):
                raise EntryClosed(f"race {race.number} takes no more entrants; enter the next one")
            present = await standings(session, race_id)
            taken = {s.submission.hotkey for s in present if s.entrant.role != "champion"}
            entered = {s.submission.id for s in present}
            new: list[UUID] = []
            for submission in await candidates(session, submissions):
                if submission.hotkey not in taken and submission.id not in entered:
                    taken.add(submission.hotkey)
                    new.append(submission.id)
            await add_entrants(session, race, dict.fromkeys(new), self._clock())
            return new

    async def advance(self, race_id: UUID) -> str:
        """Do whatever the race is ready for, and return the state it is then in. A paused race stays in it.

        Raises what the database or the judge's outage raises; calling again goes on from there.
        """
        if await self._paused(race_id):
            return await self._state(race_id)
        await self._put_under_our_judge(race_id)
        match await self._state(race_id):
            case "qualifying":
                await self._finish_qualifying(race_id)
            case "drawing":
                await self._draw(race_id)
            case "racing":
                await self._finish_racing(race_id)
            case "judging":
                await self._settle(race_id)
        return await self._state(race_id)

    async def _state(self, race_id: UUID) -> str:
        async with self._database.session() as session:
            state = await session.scalar(select(Race.state).where(Race.id == race_id))
        if state is None:
            raise LookupError(f"there is no race {race_id}")
        return state

    async def _paused(self, race_id: UUID) -> bool:
        async with self._database.session() as session:
            return bool(await session.scalar(select(Race.paused).where(Race.id == race_id)))

    async def _put_under_our_judge(self, race_id: UUID) -> None:
        """Have a race that began under another judge or rubric judged anew by ours, all of it: entrants are
        compared under one judge. A race that is over keeps the one it was decided by.
        """
        async with self._database.session() as session:
            row = (
                await session.execute(select(Race.judge, Race.rubric, Race.state).where(Race.id == race_id))
            ).one_or_none()
            if row is None or row.state in OVER or (row.judge, row.rubric) == self._judged_by:
                return
            race = await locked(session, race_id)
            if race.state in OVER:
                return
            if race.judge is not None:
                _log.warning(
                    "race %d began under the judge %s by rubric %s; it is judged anew by %s by rubric %s",
                    *(race.number, race.judge, race.rubric, *self._judged_by),
                )
            race.judge, race.rubric = self._judged_by

    async def _judge(self, race_id: UUID, phase: str) -> bool:
        """Whether a phase is played and judged; lets the judge work when only it is missing."""
        async with self._database.session() as session:
            if await unfinished(session, race_id, phase):
                return False
            found = await phase_results(session, race_id, phase)
        if found.unjudged:
            found = await self._judge_round(race_id, phase)
        pause_s = self._rules.judge_pause_s
        for _ in range(self._rules.judge_retries):
            if found.unjudged or not found.unanswered:
                break
            await asyncio.sleep(pause_s)
            pause_s *= 2
            found = await self._judge_round(race_id, phase)
        return found.complete

    async def _judge_round(self, race_id: UUID, phase: str) -> PhaseResults:
        try:
            async with asyncio.timeout(self._rules.judge_deadline_s):
                await self._judge_pending()
        except TimeoutError:
            _log.warning("the judge is not done after %.0f s; going on later", self._rules.judge_deadline_s)
        async with self._database.session() as session:
            return await phase_results(session, race_id, phase)

    async def _finish_qualifying(self, race_id: UUID) -> None:
        if not await self._judge(race_id, QUALIFYING):
            return
        async with self._database.session() as session:
            race = await locked(session, race_id)
            now = self._clock()
            if not _may_leave(race, "qualifying") or (
                race.boundary_at is not None and now < race.boundary_at
            ):
                return
            entrants = await standings(session, race_id)
            challengers = [s for s in entrants if s.entrant.role != "champion"]
            found = await phase_results(session, race_id, QUALIFYING)
            if not found.complete or (not challengers and race.boundary_at is None):
                return  # somebody entered in the meantime, or nobody has yet
            race.boundary_at = race.boundary_at or now
            rules = Rules.load(race.rules)
            scores = qualifying_scores(found, entrants, rules)
            reason = "nobody entered" if not entrants else void_reason(scores, rules.void_share)
            if reason is not None:
                self._void(race, f"qualifying: {reason}")
                return
            qualify(entrants, scores, rules)
            race.state = "drawing"

    async def _draw(self, race_id: UUID) -> None:
        async with self._database.session() as session:
            race = await session.get_one(Race, race_id)
            boundary_at = race.boundary_at
        if boundary_at is None:
            raise RuntimeError(f"race {race_id} is drawing without a boundary")
        async with asyncio.timeout(_BLOCK_DEADLINE_S):
            block = await self._blocks.first_block_at_or_after(boundary_at)
        if block is None:
            return
        async with self._database.session() as session:
            await keep_suites(
                session
            )  # before the race's row: whoever stores a suite takes them in this order
            race = await locked(session, race_id)
            if not _may_leave(race, "drawing"):
                return
            rules = Rules.load(race.rules)
            race.draw_block, race.draw_block_hash = block
            try:
                race.clustered_with = await stored_suites(session)
                drawn = await draw_problems(session, race, block_hash=block[1], rules=rules)
            except PoolTooSmall as error:
                self._void(race, f"drawing: {error}")
                return
            race.drawn = list(drawn)
            entrants = [s for s in await standings(session, race_id) if s.entrant.role is not None]
            await queue_episodes(
                session,
                race,
                phase=RACE,
                suite_id=race.pool_suite_id,
                problem_ids=drawn,
                submissions=[s.submission.id for s in entrants],
                repeats=rules.repeats,
                now=self._clock(),
            )
            await expose(session, race, race.pool_suite_id, drawn)
            race.state = "racing"

    async def _finish_racing(self, race_id: UUID) -> None:
        async with self._database.session() as session:
            race = await locked(session, race_id)
            if not _may_leave(race, "racing"):
                return
            if not await unfinished(session, race_id, RACE):
                race.state = "judging"

    async def _settle(self, race_id: UUID) -> None:
        if not await self._judge(race_id, RACE):
            return
        credits = await self.credits(race_id)
        heard: Sequence[Heard] | None = ()
        if self._agreement is not None:
            heard = await self._heard(self._agreement, race_id, credits)
        if heard is None:
            return
        async with self._database.session() as session:
            race = await locked(session, race_id)
            if not _may_leave(race, "judging"):
                return
            if heard:
                await keep(session, race, heard, self._clock())
            settled = settle(await race_inputs(session, race, credits))
            if isinstance(settled, Voided):
                self._void(race, settled.reason)
                return
            self._crown(session, race, settled)
            race.settlement = settled.to_json()
            race.settled_at = self._clock()
            race.state = "settled"

    async def _heard(
        self, agreement: Agreement, race_id: UUID, credits: Mapping[str, int]
    ) -> Sequence[Heard] | None:
        """Publish our result of a race that we have scored, and hear what the others say of it.

        Nothing when they have no say by its rules, or we cannot settle it ourselves; None while they are
        waited for.
        """
        async with self._database.session() as session:
            race = await session.get_one(Race, race_id)
            pool = await session.get_one(Suite, race.pool_suite_id)
            inputs = await race_inputs(session, race, credits)
            alone = settle(inputs)
            if isinstance(alone, Voided):
                return ()
            body = result_of(race, inputs, alone, validator=agreement.hotkey, pool_root=pool.root)
        _, since = await agreement.publish(race_id, body)
        if inputs.rules.consensus == "own":
            return ()
        return await agreement.hear(race_id, race.number, since, inputs.rules)

    async def credits(self, race_id: UUID) -> dict[str, int]:
        """Traces of a race that the corpus accepts, by hotkey; qualifying counts as much as racing.

        As `phase_results`, it knows only the judgements that count in the race.
        """
        return await trace_credits(self._database, race_id, self._accepts)

    def _crown(self, session: AsyncSession, race: Race, settled: Settlement) -> None:
        if settled.promotion.promoted and settled.promotion.champion is not None:
            session.add(
                Reign(
                    race_id=race.id,
                    submission_id=UUID(settled.promotion.champion),
                    began_at=race.boundary_at or self._clock(),
                )
            )

    def _void(self, race: Race, reason: str) -> None:
        _log.warning("race %d is void: %s", race.number, reason)
        race.state = "void"
        race.void_reason = reason
        race.settled_at = self._clock()


def _may_leave(race: Race, state: str) -> bool:
    """Whether a race whose row is locked is still in this state, and not paused."""
    return race.state == state and not race.paused
