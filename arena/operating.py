"""What an operator may do to a race, each with a row in the audit log, in the caller's transaction.

Nothing here touches a race that is over: what was settled stays settled.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from arena.race_records import locked
from storage.judgements import storable
from storage.judging import Scope, lacking, reopen
from storage.tables import AuditEntry, Race

SUMMARIES = {
    "pause": "Stop a race for a while",
    "resume": "Let a paused race go on",
    "void": "End a race without a result",
    "rejudge": "Ask a race's judge anew about what it left unanswered",
}
"""What an operator may do."""


class RaceOver(Exception):
    """The race has settled or is void."""


async def operate(
    session: AsyncSession, race_id: UUID, action: str, *, operator: str, reason: str, now: datetime
) -> AuditEntry:
    """Do one of `SUMMARIES` to a race, and return its row in the audit log.

    - `pause`: no episode is handed out any more, and the race stays in its state; what is being played is
      kept when it is done. `resume` undoes it.
    - `void`: the race ends without a result. It moves no weights and costs nobody their cooldown.
    - `rejudge`: what the judge could not answer, given up or not, is asked anew. Grades stand.

    Raises RaceOver, LookupError when there is no such race, and ValueError for another action.
    """
    race = await locked(session, race_id)
    if race.state in ("settled", "void"):
        raise RaceOver(f"race {race.number} is {race.state}; nothing can change it")
    entry = AuditEntry(
        at=now,
        operator=operator,
        action=action,
        race_id=race_id,
        reason=storable(reason),
        effect=await _done(session, race, action, reason, now),
    )
    session.add(entry)
    await session.flush()
    return entry


async def _done(session: AsyncSession, race: Race, action: str, reason: str, now: datetime) -> dict[str, Any]:
    match action:
        case "pause" | "resume":
            before, race.paused = race.paused, action == "pause"
            return {"was_paused": before}
        case "void":
            before_state, race.state = race.state, "void"
            race.paused = False
            race.void_reason = storable(f"by an operator: {reason}")
            race.settled_at = now
            return {"was": before_state}
        case "rejudge":
            if race.judge is None or race.rubric is None:
                return {"unanswered": 0}
            waiting = Scope(in_force=True, race_id=race.id)
            unanswered = await lacking(session, judge=race.judge, rubric=race.rubric, scope=waiting)
            await reopen(session, judge=race.judge, rubric=race.rubric, scope=waiting)
            return {"unanswered": unanswered}
        case _:
            raise ValueError(f"an operator can {', '.join(SUMMARIES)}, not {action!r}")
