"""A race whose workers, engine and database are killed again and again, and whose provider fails.

What it settles to is, byte for byte, what it settles to when nothing happens; no episode is lost or stored
twice; and nothing keeps running.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.books import Books, books
from tests.end_to_end.chaos import EPISODES, Chaos, Provider, chaos_in

KILLS, RESTARTS, OUTAGES = 100, 10, 8
DISTURBED_S = 330.0


def anything(chaos: Chaos, provider: Provider, seed: int) -> Callable[[], None]:
    """Kill one process; in between, end the database, or have the provider fail for a while."""
    chance = random.Random(seed)

    def strike() -> None:
        chaos.kill(chance.choice(list(chaos.running)))
        if chaos.restarts < RESTARTS and chaos.kills % (KILLS // RESTARTS) == 0:
            chaos.restart_database(hard=chaos.restarts % 2 == 0)
        elif chaos.kills % 12 == 5:
            provider.fail_for(chance.uniform(0.5, 2.0))

    return strike


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_race_through_a_hundred_kills_settles_to_the_bytes_of_an_undisturbed_one(
    open_folder: Path, undisturbed: Books
) -> None:
    with Provider() as provider, chaos_in(open_folder / "wild", provider.base_url) as wild:
        wild.run(anything(wild, provider, seed=7), kills=KILLS, deadline_s=DISTURBED_S)
        kills = wild.kills
        found = asyncio.run(books(wild))
        assert wild.end() == []
    assert (kills, wild.restarts, provider.outages >= OUTAGES) == (KILLS, RESTARTS, True)
    assert found.counts["leases"] > EPISODES, "no kill met an episode"
    assert found.counts["traces"] == found.counts["attempts"] > EPISODES, "no outage met an episode"
    assert found.counts["final"] == found.counts["episodes"] == EPISODES
    assert found.settlement == undisturbed.settlement
