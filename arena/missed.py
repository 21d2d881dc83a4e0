"""Races that the others ran while this validator was down: what they drew, so that the next draw is theirs.

Only that a race took place, and what it drew, is taken over, and only from more than half of the others'
stake; the race itself is void here. Who became champion then is found out by the vote of the next race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from arena.entries import expose
from arena.rules import Rules
from arena.signed_results import Heard, Result, read_result
from arena.suites import keep_suites, stored_suites
from storage.tables import Race, Suite

MOST = 64
"""The most missed races that are looked for: further back, what was drawn then counts as unseen."""
REASON = "missed"
"""How the reason of such a race begins."""


def taken_place(heard: Sequence[Heard], *, number: int, rules_hash: str, pool_root: str) -> Result | None:
    """A result with the draw that more than half of the others' stake has; None without such a draw."""
    total = sum(one.stake for one in heard)
    votes: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    by_draw: dict[tuple[int, str, tuple[str, ...]], Result] = {}
    for one in heard:
        try:
            result = read_result(one)
        except ValueError:
            continue
        if (result.race, result.rules_hash, result.pool_root) != (number, rules_hash, pool_root):
            continue
        draw = (result.draw_block, result.draw_block_hash, tuple(result.drawn))
        votes[draw] += one.stake
        by_draw.setdefault(draw, result)
    return next((by_draw[draw] for draw, stake in votes.items() if 2 * stake > total), None)


async def record(
    session: AsyncSession, found: Result, *, rules: Rules, public: str, pool: str, now: datetime
) -> None:
    """Store a race that we missed, and that its problems were shown."""
    await keep_suites(session)
    suite = await session.get_one(Suite, pool)
    race = Race(
        number=found.race,
        state="void",
        void_reason=f"{REASON}: this validator was down; it drew as the others did",
        rules=rules.model_dump(mode="json"),
        rules_hash=rules.rules_hash,
        public_suite_id=public,
        pool_suite_id=suite.id,
        opened_at=now,
        settled_at=now,
        draw_block=found.draw_block,
        draw_block_hash=found.draw_block_hash,
        drawn=list(found.drawn),
        clustered_with=await stored_suites(session),
    )
    session.add(race)
    await session.flush()
    await expose(session, race, pool, found.drawn)
