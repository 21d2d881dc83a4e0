"""Trace credit: how many traces of a race entered the corpus, by the hotkey that they are owed to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from storage import traces
from storage.database import Database
from storage.tables import Race
from storage.traces import StoredTrace, TraceQuery


async def trace_credits(
    database: Database, race_id: UUID, accepts: Callable[[StoredTrace], bool]
) -> dict[str, int]:
    """Traces of a race that `accepts` lets into the corpus; qualifying counts as much as racing.

    It knows only the judgements that count in the race: its own judge's, by its rubric, before it was over.
    """
    async with database.session() as session:
        race = await session.get_one(Race, race_id)
    counts: dict[str, int] = {}
    query = TraceQuery(race_id=race_id, judge=race.judge, rubric=race.rubric)
    async for trace in traces.stream(database, query):
        if accepts(in_time(trace)):
            counts[trace.hotkey] = counts.get(trace.hotkey, 0) + 1
    return counts


def in_time(trace: StoredTrace) -> StoredTrace:
    """The trace as its race knows it: without a judgement that came when the race was over."""
    late = trace.judgement is not None and trace.judgement.late
    return replace(trace, judgement=None) if late else trace
