"""Taking a miner's source file: proven, cooled down, screened, compared, kept once.

Sending the same file again is not a second submission: it answers with the first, so that a miner whose
connection broke can simply repeat the request.

Of two like submissions the one with the older claim stands (`arena.priority`). If it is sent second, it is
taken and the other is refused from then on: it enters no further race, and stays in one that it is in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from arena import baselines, embargo, fingerprint_index
from arena.cooldown import causes, cooldown, record
from arena.priority import Claim, stands
from arena.rules import Rules
from arena.screening import (
    BadName,
    CommitmentMismatch,
    CommitmentMissing,
    CoolingDown,
    Duplicate,
    Refused,
    Screener,
    ScreeningUnavailable,
    TooSimilar,
)
from arena.similarity import Copy, Like, copied
from storage.database import Database
from storage.tables import Submission

_LOCK = 0x7375626D6974
"""Key of the advisory lock under which submissions are judged against one another: "submit" in ASCII."""
_REINDEXED = 16
"""Stored submissions whose fingerprints one new submission waits for, after a change of rules."""


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
        self, database: Database, rules: Rules, clock: Callable[[], datetime], screener: Screener
    ) -> None:
        self._database = database
        self._rules = rules
        self._clock = clock
        self._screener = screener

    async def accept(
        self, *, source: bytes, hotkey: str, name: str, committed: tuple[int, str] | None = None
    ) -> Accepted:
        """Take a source, or raise the `screening.Refused` that says why not.

        `committed` is what the hotkey's commitment on chain is: its block and a SHA-256 in hex. Raises
        ScreeningUnavailable when we could not tell.
        """
        digest = hashlib.sha256(source).hexdigest()
        self._check_name(name)
        try:
            return await self._accept(source, digest, hotkey, name, committed)
        except Refused as refused:
            async with self._database.session() as session:
                await record(session, refused, hotkey=hotkey, source_sha256=digest, now=self._clock())
            raise

    async def _accept(
        self, source: bytes, digest: str, hotkey: str, name: str, committed: tuple[int, str] | None
    ) -> Accepted:
        async with self._database.session() as session:
            known = await self._known(session, hotkey, digest)
            if known is not None:
                return known
            await self._check_cooldown(session, hotkey)
            claim = Claim(digest, await self._proven_block(session, hotkey, digest, committed))
            await self._later_twins(session, hotkey, claim)
        await self._index_others()
        own = baselines.own(await self._screener.screen(source), self._rules.similarity)
        async with self._database.session() as session:
            await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            known = await self._known(session, hotkey, digest)
            if known is not None:
                return known
            await self._check_cooldown(session, hotkey)
            later = await self._later_twins(session, hotkey, claim)
            later += await self._later_likes(session, hotkey, claim, own)
            submission = Submission(
                hotkey=hotkey,
                source_sha256=digest,
                source=source,
                name=name,
                commitment_block=claim.block,
                state="accepted",
                submitted_at=self._clock(),
            )
            session.add(submission)
            await session.flush()
            await fingerprint_index.store(session, submission, own, self._rules.similarity)
            for copy in later:
                _supersede(copy, submission)
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

    async def _check_cooldown(self, session: AsyncSession, hotkey: str) -> None:
        now = self._clock()
        found = cooldown(await causes(session, hotkey, self._rules, now), self._rules, now)
        if found is not None:
            raise CoolingDown(found.until, found.why)

    async def _proven_block(
        self, session: AsyncSession, hotkey: str, digest: str, committed: tuple[int, str] | None
    ) -> int | None:
        """The block that the claim to this source dates from; None without a commitment to it."""
        block, found = committed or (None, "")
        found = found.removeprefix("0x").lower()
        if found == digest:
            return block
        if not self._rules.require_commitment:
            return None
        # The chain may not show us yet what was committed last: then it still shows the one before.
        before = select(exists().where(Submission.hotkey == hotkey, Submission.source_sha256 == found))
        if not found or await session.scalar(before):
            raise CommitmentMissing(
                f"commit to {digest}, the SHA-256 of this source, on chain before sending it; if you did, "
                "wait until its block is final and send it again"
            )
        raise CommitmentMismatch(
            f"the chain shows a commitment to {found}, but this source has {digest}: commit to the very "
            "bytes that you send"
        )

    async def _later_twins(self, session: AsyncSession, hotkey: str, claim: Claim) -> list[Submission]:
        """Other hotkeys' submissions of this very source, all with a younger claim. Raises Duplicate."""
        twins = await self._submissions(
            session, Submission.source_sha256 == claim.source_sha256, Submission.hotkey != hotkey
        )
        if any(await self._older(session, twins, claim)):
            raise Duplicate("another hotkey has the older claim to this source; submit work of your own")
        return list(twins)

    async def _later_likes(
        self, session: AsyncSession, hotkey: str, claim: Claim, own: frozenset[int]
    ) -> list[Submission]:
        """Submissions that copy this one, all with a younger claim. Raises TooSimilar."""
        rules = self._rules.similarity
        found = await fingerprint_index.like(session, own, hotkey=hotkey, rules=rules)
        likes = {like.id: like for like in found}
        stored = await self._submissions(
            session, Submission.id.in_(likes), Submission.source_sha256 != claim.source_sha256
        )
        older = await self._older(session, stored, claim)
        before = [likes[s.id] for s, is_older in zip(stored, older, strict=True) if is_older]
        copy = copied(len(own), before, baselines.thresholds(rules))
        if copy is not None:
            raise await self._too_similar(session, stored, copy)
        return [
            s
            for s, is_older in zip(stored, older, strict=True)
            if not is_older and self._is_copy(likes[s.id], len(own))
        ]

    def _is_copy(self, like: Like[UUID], count: int) -> bool:
        return copied(count, [like], baselines.thresholds(self._rules.similarity)) is not None

    async def _submissions(self, session: AsyncSession, *conditions: object) -> Sequence[Submission]:
        found = await session.scalars(
            select(Submission)
            .options(defer(Submission.source, raiseload=True))
            .where(Submission.state != "refused", *conditions)  # type: ignore[arg-type]
            .order_by(Submission.submitted_at, Submission.id)
        )
        return found.all()

    async def _older(self, session: AsyncSession, stored: Sequence[Submission], claim: Claim) -> list[bool]:
        public = await embargo.public_among(session, stored, self._rules, self._clock())
        return [
            stands(Claim(s.source_sha256, s.commitment_block), claim, stored_is_public=s.id in public)
            for s in stored
        ]

    async def _too_similar(
        self, session: AsyncSession, stored: Sequence[Submission], copy: Copy[UUID]
    ) -> TooSimilar:
        """The refusal. Of a hidden source it says only that there is one: a share would help to find it."""
        public = await embargo.public_among(session, stored, self._rules, self._clock())
        if not set(copy.of) <= public:
            return TooSimilar(
                "another hotkey has the older claim to a source like this one, which is not public yet; "
                "submit work of your own"
            )
        names = {s.id: f"{s.name} ({s.id})" for s in stored}
        sources = tuple(names[id] for id in copy.of)
        return TooSimilar(
            f"{copy.share:.0%} of it is shared with {' and '.join(sources)}, whose claim is older; "
            "submit work of your own",
            share=round(copy.share, 2),
            sources=tuple(str(id) for id in copy.of),
        )

    async def _index_others(self) -> None:
        """Take the fingerprints of stored submissions that have none by these rules, some at a time.

        Raises ScreeningUnavailable while others are left: without them a copy could pass.
        """
        rules = self._rules.similarity
        for _ in range(_REINDEXED):
            async with self._database.session() as session:
                waiting = await fingerprint_index.unindexed(session, rules, 1)
            if not waiting:
                return
            try:
                own = baselines.own(await self._screener.screen(waiting[0].source), rules)
            except Refused:
                own = frozenset()  # it was taken by other rules, and stays taken
            async with self._database.session() as session:
                await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
                submission = await session.get_one(Submission, waiting[0].id)
                if submission.fingerprint_scheme != baselines.scheme(rules):
                    await fingerprint_index.store(session, submission, own, rules)
        async with self._database.session() as session:
            if await fingerprint_index.unindexed(session, rules, 1):
                raise ScreeningUnavailable("earlier sources are still being read; try again later")


def _supersede(copy: Submission, original: Submission) -> None:
    copy.state = "refused"
    copy.superseded_by = original.id
    copy.refusal = (
        "too_similar: another hotkey has submitted a like source, whose commitment on chain is older; "
        "this one enters no further race"
    )
