"""What became of attempts to collect sources from miners' nodes: whom to ask next, and what to tell them.

An attempt costs its miner nothing but the attempt. Where asking again for the same source would change
nothing, it is not asked for again; where it might, the pauses grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from arena.screening import CommitmentMissing, CoolingDown, Refused
from storage.tables import Collection, Submission

KEPT = 20
"""Attempts kept of each hotkey."""
_FIRST_PAUSE = timedelta(seconds=15)
_LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one attempt ended. `final`: the same source would end so again."""

    code: str
    detail: str
    final: bool
    submission_id: UUID | None = None


def refusal(refused: Refused) -> Attempt:
    """The attempt that ended with a refusal of what was collected."""
    passing = isinstance(refused, CoolingDown | CommitmentMissing)
    return Attempt(refused.code, str(refused), final=not passing)


async def wanted(
    session: AsyncSession, committed: Mapping[str, str], now: datetime, *, pause: timedelta = _FIRST_PAUSE
) -> set[str]:
    """Of the hotkeys and the hashes (hex) that they committed to, those whose source is to be asked for now.

    After n attempts in a row that may be repeated, `pause` times 2 to the n has to pass.
    """
    pairs = list(committed.items())
    here = tuple_(Submission.hotkey, Submission.source_sha256)
    stored = await session.scalars(select(Submission.hotkey).where(here.in_(pairs)))
    out = set(stored)
    tried: dict[str, list[Collection]] = {}
    asked = tuple_(Collection.hotkey, Collection.source_sha256)
    rows = await session.scalars(select(Collection).where(asked.in_(pairs)).order_by(Collection.id))
    for row in rows:
        tried.setdefault(row.hotkey, []).append(row)
    for hotkey, attempts in tried.items():
        wait = min(_LONGEST_PAUSE, pause * 2.0 ** min(16, len(attempts) - 1))
        if attempts[-1].final or now < attempts[-1].at + wait:
            out.add(hotkey)
    return committed.keys() - out


async def note(
    session: AsyncSession, *, hotkey: str, source_sha256: str, attempt: Attempt, now: datetime
) -> None:
    """Keep a record of an attempt, for its miner to see; of each hotkey the last `KEPT`."""
    session.add(
        Collection(
            hotkey=hotkey,
            source_sha256=source_sha256,
            at=now,
            code=attempt.code,
            detail=attempt.detail[:500],
            final=attempt.final,
            submission_id=attempt.submission_id,
        )
    )
    await session.flush()
    kept = select(Collection.id).where(Collection.hotkey == hotkey).order_by(Collection.id.desc()).limit(KEPT)
    await session.execute(delete(Collection).where(Collection.hotkey == hotkey, Collection.id.not_in(kept)))


async def attempts(session: AsyncSession, hotkey: str) -> list[Collection]:
    """A hotkey's last attempts, the newest first."""
    rows = await session.scalars(
        select(Collection).where(Collection.hotkey == hotkey).order_by(Collection.id.desc()).limit(KEPT)
    )
    return list(rows)
