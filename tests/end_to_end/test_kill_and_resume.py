"""The demo is killed with SIGKILL again and again, and started again with the same data folder each time.

What was done stays done, what was in its hands is played again, nothing is lost, and nothing keeps running.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from neurons.demo.cast import CASTS
from neurons.demo.loop import _SLOTS
from tests.end_to_end.demo_process import Point, demo_in
from tests.end_to_end.ledger import finals, read_books

SIZE = ("--products", "400", "--public", "3", "--drawn", "9")

STATE = "SELECT state FROM race"
DONE = "SELECT count(*) FROM episode WHERE phase = $1 AND state = 'done'"
LEFT = "SELECT count(*) FROM episode WHERE phase = $1 AND state <> 'done'"
LEASED = "SELECT count(*) FROM episode WHERE phase = $1 AND state = 'leased'"


async def some_have_submitted(database: asyncpg.Connection, _: Path) -> bool:
    submitted = await database.fetchval("SELECT count(*) FROM submission")
    assert submitted < len(CASTS["shopping"].miners), "too late: all have submitted"
    return bool(submitted >= 2)


def midway(phase: str, state: str) -> Point:
    """Some but not all of a phase's episodes are done, and some are being played."""

    async def point(database: asyncpg.Connection, _: Path) -> bool:
        now = await database.fetchval(STATE)
        if now != state:
            assert now in (None, "qualifying", "drawing"), f"too late: the race is {now}"
            return False
        done, left, leased = [await database.fetchval(query, phase) for query in (DONE, LEFT, LEASED)]
        assert left or not done, f"too late: all of {phase} is played"
        return bool(done >= 5 and leased)

    return point


async def training(_: asyncpg.Connection, data_dir: Path) -> bool:
    folder = data_dir / "distill"
    assert not (folder / "report.json").exists(), "too late: it is trained"
    return (folder / "evaluation" / "base.json").exists()


POINTS: tuple[Point, ...] = (
    some_have_submitted,
    midway("qualifying", "qualifying"),
    midway("race", "racing"),
    training,
)


@pytest.mark.slow
def test_a_demo_killed_at_every_stage_plays_every_episode_once_and_loses_none(disk_folder: Path) -> None:
    done: dict[UUID, UUID] = {}
    with demo_in(disk_folder, SIZE) as demo:
        for point in POINTS:
            demo.start()
            demo.wait_for(point)
            demo.kill()
            assert demo.survivors(database_may_live=True) == []
            now = asyncio.run(finals(demo.data_dir))
            assert done.items() <= now.items(), "what was stored before is what is stored now"
            done = now
        report = demo.run()
        assert demo.survivors(database_may_live=False) == []
        books = asyncio.run(read_books(demo.data_dir))
        assert demo.survivors(database_may_live=False) == []

    books.check_every_episode_once()
    books.check_every_trace_proves_itself()
    books.check_the_settlement_follows_from_the_store()
    assert done.items() <= {t.episode_id: t.trace_id for t in books.traces if t.final}.items()
    assert books.leases_lost <= _SLOTS * len(POINTS), "only what was in its hands was begun again"
    assert books.submissions == len(CASTS["shopping"].miners)
    assert books.weight_settings == 1, "weights that were confirmed are not sent again"
    assert report["weights"]["confirmed"]
    assert report["weights"]["read_back"] == report["weights"]["sent"]
    assert sum(report["episodes"]["verdicts"].values()) == len(books.episodes)
