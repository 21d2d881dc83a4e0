"""When a hotkey may submit again, and why not sooner.

- A submission makes its hotkey wait for `cooldown_h` from when it was sent. If it was only ever in races that
  we voided, the fault was ours, and it makes nobody wait. What could not be screened was never stored, and
  makes nobody wait either.
- A security refusal makes it wait for `cooldown_security_h` from the refusal.
- An integrity refusal makes it wait for `cooldown_h`, and nothing gives that back: neither for a copy that
  was refused when it came, nor for one that was found out when the original came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.rules import Rules
from arena.screening import Kind, Refused
from storage.tables import Entrant, Race, Refusal, Submission


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that a hotkey waits for."""

    kind: Literal["submission"] | Kind
    at: datetime
    detail: str
    """In words that can follow a colon."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Until when a hotkey must wait, and why."""

    until: datetime
    why: str


def cooldown(causes: Iterable[Cause], rules: Rules, now: datetime) -> Cooldown | None:
    """The wait that ends last, or None when there is none at `now`."""
    waits = [Cooldown(cause.at + wait(cause.kind, rules), cause.detail) for cause in causes]
    longest = max(waits, key=lambda w: w.until, default=None)
    return longest if longest is not None and now < longest.until else None


def wait(kind: Literal["submission"] | Kind, rules: Rules) -> timedelta:
    """How long something of this kind makes its hotkey wait."""
    return timedelta(hours=rules.cooldown_security_h if kind == "security" else rules.cooldown_h)


async def causes(session: AsyncSession, hotkey: str, rules: Rules, now: datetime) -> list[Cause]:
    """What a hotkey may have to wait for, from what is stored."""
    longest = max(wait("submission", rules), wait("security", rules))
    in_void_race = exists().where(
        Entrant.submission_id == Submission.id, Entrant.race_id == Race.id, Race.state == "void"
    )
    in_fair_race = exists().where(
        Entrant.submission_id == Submission.id, Entrant.race_id == Race.id, Race.state != "void"
    )
    superseded = Submission.state == "refused"
    sent = await session.scalars(
        select(Submission.submitted_at)
        .where(Submission.hotkey == hotkey, Submission.submitted_at > now - longest)
        .where(superseded | ~in_void_race | in_fair_race)
    )
    refused = await session.scalars(
        select(Refusal).where(Refusal.hotkey == hotkey, Refusal.refused_at > now - longest)
    )
    return [
        *(Cause("submission", at, f"it submitted at {at.isoformat(timespec='seconds')}") for at in sent),
        *(Cause(_kind(r), r.refused_at, f"it was refused ({r.code}): {r.detail}") for r in refused),
    ]


async def record(
    session: AsyncSession, refused: Refused, *, hotkey: str, source_sha256: str, now: datetime
) -> None:
    """Store a refusal if it makes its hotkey wait."""
    if refused.kind is not None:
        session.add(
            Refusal(
                hotkey=hotkey,
                source_sha256=source_sha256,
                kind=refused.kind,
                code=refused.code,
                detail=str(refused),
                refused_at=now,
            )
        )


def _kind(refusal: Refusal) -> Kind:
    return "security" if refusal.kind == "security" else "integrity"
