"""Taking a miner's source file: screened, cooled down, kept once.

Sending the same file again is not a second submission: it answers with the first, so that a miner whose
connection broke can simply repeat the request. A submission that was only ever in a race that we voided does
not count for the cooldown: that fault was ours.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.rules import Rules
from arena.screening import BadName, CoolingDown, Duplicate, screen
from storage.database import Database
from storage.tables import Entrant, Race, Submission

_LOCK = 0x7375626D6974
"""Key of the advisory lock under which submissions are judged against one another: "submit" in ASCII."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A submission that was taken. `new` is False when the same hotkey had sent the same source before."""

    submission_id: UUID
    source_sha256: str
    submitted_at: datetime
    new: bool


class Submissions:
    """Accepts source files. `clock` gives the time as an aware UTC datetime."""

    def __init__(
        self, database: Database, rules: Rules, clock: Callable[[], datetime], *, screenings: int = 2
    ) -> None:
        """`screenings`: how many sources are parsed at once; the others wait."""
        self._database = database
        self._rules = rules
        self._clock = clock
        self._screenings = asyncio.Semaphore(screenings)

    async def accept(
        self, *, source: bytes, hotkey: str, name: str, commitment_block: int | None = None
    ) -> Accepted:
        """Take a source, or raise the `screening.Refused` that says why not.

        Raises ScreeningUnavailable when we could not tell.
        """
        digest = hashlib.sha256(source).hexdigest()
        self._check_name(name)
        async with self._database.session() as session:
            known = await self._known(session, hotkey, digest)
            if known is not None:
                return known
            await self._check_others(session, hotkey, digest)
        async with self._screenings:
            await screen(source, self._rules)
        async with self._database.session() as session:
            await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            known = await self._known(session, hotkey, digest)
            if known is not None:
                return known
            await self._check_others(session, hotkey, digest)
            submission = Submission(
                hotkey=hotkey,
                source_sha256=digest,
                source=source,
                name=name,
                commitment_block=commitment_block,
                state="accepted",
                submitted_at=self._clock(),
            )
            session.add(submission)
            await session.flush()
            return Accepted(submission.id, digest, submission.submitted_at, new=True)

    def _check_name(self, name: str) -> None:
        if not name or len(name) > self._rules.name_chars or not name.isprintable() or name != name.strip():
            raise BadName(
                f"the agent's name must have 1 to {self._rules.name_chars} printable characters "
                "and not begin or end with a space"
            )

    async def _known(self, session: AsyncSession, hotkey: str, digest: str) -> Accepted | None:
        found = await session.scalar(
            select(Submission).where(Submission.hotkey == hotkey, Submission.source_sha256 == digest)
        )
        if found is None:
            return None
        return Accepted(found.id, digest, found.submitted_at, new=False)

    async def _check_others(self, session: AsyncSession, hotkey: str, digest: str) -> None:
        """Raise when the hotkey is cooling down or another one has this source."""
        in_void_race = exists().where(
            Entrant.submission_id == Submission.id, Entrant.race_id == Race.id, Race.state == "void"
        )
        in_fair_race = exists().where(
            Entrant.submission_id == Submission.id, Entrant.race_id == Race.id, Race.state != "void"
        )
        last = await session.scalar(
            select(func.max(Submission.submitted_at)).where(
                Submission.hotkey == hotkey, ~in_void_race | in_fair_race
            )
        )
        if last is not None:
            until = last + timedelta(hours=self._rules.cooldown_h)
            if self._clock() < until:
                raise CoolingDown(until)
        other = select(Submission.id).where(
            Submission.source_sha256 == digest, Submission.hotkey != hotkey, Submission.state != "refused"
        )
        if await session.scalar(other.limit(1)) is not None:
            raise Duplicate("another hotkey has submitted this source first; submit work of your own")
