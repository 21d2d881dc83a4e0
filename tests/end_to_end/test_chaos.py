"""A race whose workers, engine and database are killed again and again, and whose provider fails.

What it settles to is, byte for byte, what it settles to when nothing happens; no episode is lost or stored
twice; and nothing keeps running.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from arena.verification import Means, verify_race
from distill.filters import FilterConfig, accepts
from problems.problem import canonical_json
from storage.database import Database
from storage.tables import Episode, Race, Suite, Trace
from tests.arena.ledger import Ledger
from tests.end_to_end.chaos import CAST, Chaos, chaos_in
from tests.end_to_end.chaos_process import RULES

KILLS, RESTARTS, OUTAGES = 100, 10, 8
UNDISTURBED_S, DISTURBED_S = 120.0, 330.0


async def books(chaos: Chaos) -> tuple[bytes, dict[str, int]]:
    """The settlement's bytes, and the leases, attempts and traces; every step of verifying must hold."""
    async with Database.open(chaos.url, chaos.folder) as database:
        async with database.session() as session:
            race = (await session.scalars(select(Race))).one()
            suites = (await session.scalars(select(Suite.id))).all()
            counts = {
                "episodes": await session.scalar(select(func.count()).select_from(Episode)),
                "leases": await session.scalar(select(func.sum(Episode.fence))),
                "attempts": await session.scalar(select(func.sum(Episode.attempts))),
                "traces": await session.scalar(select(func.count()).select_from(Trace)),
                "final": await session.scalar(select(func.count()).where(Trace.final)),
            }
        assert race.state == "settled", race.void_reason
        means = Means(
            accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
            environments=dict.fromkeys(suites, Ledger()),
            regrade=lambda judge, rubric: None,
        )
        differing = [s for s in await verify_race(database, race.number, means) if s.status == "differs"]
        assert differing == []
    return canonical_json(race.settlement), {name: int(count or 0) for name, count in counts.items()}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_race_through_a_hundred_kills_settles_to_the_bytes_of_an_undisturbed_one(open_folder: Path) -> None:
    episodes = len(CAST) * (RULES.public_size + RULES.drawn_size)
    with chaos_in(open_folder / "calm") as calm:
        calm.run(deadline_s=UNDISTURBED_S)
        undisturbed, counts = asyncio.run(books(calm))
        assert calm.end() == []
    assert counts == dict.fromkeys(counts, episodes), "nothing was played twice"

    with chaos_in(open_folder / "wild") as wild:
        wild.run(kills=KILLS, restarts=RESTARTS, seed=7, deadline_s=DISTURBED_S)
        kills = wild.kills
        settled, counts = asyncio.run(books(wild))
        assert wild.end() == []
    assert (kills, wild.restarts, wild.outages >= OUTAGES) == (KILLS, RESTARTS, True)
    assert counts["leases"] > episodes, "no kill met an episode"
    assert counts["traces"] == counts["attempts"] > episodes, "no outage met an episode"
    assert counts["final"] == counts["episodes"] == episodes
    assert settled == undisturbed
