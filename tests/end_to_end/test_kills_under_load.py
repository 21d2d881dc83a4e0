"""Workers, recorders, launchers, wardens, sandboxes and the provider are killed at random, under load.

Each episode ends in one final trace, as it would have ended undisturbed: no kill is ever the agent's failure.
And nothing stays behind: no process, control group, mount or socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.arena.sandbox.leftovers import aged_sockets, folders_of, groups_of, quarantined_by, swept
from tests.end_to_end.books import Books, books
from tests.end_to_end.chaos import EPISODES, Chaos, chaos_in
from tests.end_to_end.family import Role

KILLS = 100
WEIGHTS = {"worker": 2, "recorder": 3, "launcher": 4, "warden": 4, "sandbox": 4, "provider": 2}
FEWEST = 5
"""Kills of each kind that there must have been."""
DISTURBED_S = 330.0
ROLES: dict[str, Role] = {"launcher": "launcher", "warden": "warden", "sandbox": "bwrap"}


def free_port() -> int:
    """One that the system hands to nobody by itself, so that a provider that died can have it again."""
    for port in range(21_000, 30_000):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("no port is free")


def any_of_all(chaos: Chaos, struck: Counter[str], seed: int) -> Callable[[], None]:
    """Kill one process of some kind, if there is one just now."""
    chance = random.Random(seed)

    def strike() -> None:
        kind = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        before = chaos.kills
        if kind == "provider":
            chaos.kill("provider")
        elif kind == "worker":
            chaos.kill(chance.choice(chaos.workers))
        elif kind == "recorder":
            worker = chaos.running[chance.choice(chaos.workers)]
            if plays(worker.pid):
                worker.send_signal(signal.SIGUSR1)
                chaos.kills += 1
        elif victims := chaos.family.cast()[ROLES[kind]]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                chance.choice(victims).kill()
                chaos.kills += 1
        struck[kind] += chaos.kills - before

    return strike


def plays(pid: int) -> bool:
    """Whether a worker has a recorder just now."""
    with contextlib.suppress(psutil.Error):
        return any("/held-" in str(c.laddr) for c in psutil.Process(pid).net_connections("unix"))
    return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_no_kill_loses_an_episode_or_is_the_agents_failure_and_nothing_is_left(
    open_folder: Path, undisturbed: Books
) -> None:
    struck: Counter[str] = Counter()
    model_url = f"http://127.0.0.1:{free_port()}/v1"
    with chaos_in(open_folder / "wild", model_url, beside=("provider",)) as wild:
        wild.run(any_of_all(wild, struck, seed=11), kills=KILLS, deadline_s=DISTURBED_S)
        found = asyncio.run(books(wild))
        assert wild.end() == []
    print(dict(struck), dict(found.counts), sorted(found.excuses), sep="\n")
    assert sum(struck.values()) >= KILLS
    assert min(struck[kind] for kind in WEIGHTS) >= FEWEST, struck

    assert found.counts["final"] == found.counts["episodes"] == EPISODES
    assert found.counts["traces"] == found.counts["attempts"]
    assert found.verdicts == undisturbed.verdicts
    assert found.settlement == undisturbed.settlement
    for said in ("the warden died", "killed from outside", "recorder: a connection was lost", "provider: "):
        assert any(said in excuse for excuse in found.excuses), f"no episode met what is told so: {said}"

    asyncio.run(swept())
    assert [left for pid in wild.started for left in (*groups_of(pid), *folders_of(pid))] == []
    assert quarantined_by(wild.started) == []
    assert aged_sockets() == []
