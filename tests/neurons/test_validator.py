"""A validator's process: told to stop in the middle of a race, it is gone in time, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import select

from arena.scripted_shopper.child import ShopperServer
from neurons.chain import Chain
from neurons.localnet.launch import LocalNet
from neurons.wallets import Wallet, demo_wallet
from storage.database import Database
from storage.tables import Episode, Race
from tests.neurons.commands import ROOT, Running, arena
from tests.neurons.conftest import NETUID

AGENT = ROOT / "arena" / "samples" / "model_driven.py"
SETTINGS = """
[problems]
seed = 5
products = 300
pool = 16

[rules]
public_size = 3
drawn_size = 8

[sandbox]
slots = 1
"""
EVERY_S = 6
STOPPED_WITHIN_S = 10.0
"""What who stops containers gives."""
SETTLED_S = 120.0


@pytest.fixture
def shopper() -> Iterator[ShopperServer]:
    with ShopperServer() as server:
        yield server


def _wallet(localnet: LocalNet, folder: Path, name: str) -> Wallet:
    wallet = demo_wallet(name, folder / "wallets", network=localnet.url)
    localnet.fund(wallet.coldkey.ss58_address, 10.0)
    return wallet


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_told_to_stop_in_a_race_it_is_gone_in_time_and_the_next_one_ends_the_race(
    localnet: LocalNet, chain: Chain, shopper: ShopperServer, open_folder: Path
) -> None:
    (open_folder / "arena.toml").write_text(SETTINGS)
    validator, miner = (_wallet(localnet, open_folder, name) for name in ("validator", "miner"))
    uid = await chain.register(validator)
    localnet.set_stake(NETUID, validator.hotkey.ss58_address, 5000.0)
    on_chain = [f"--netuid={NETUID}", f"--subtensor.chain_endpoint={localnet.url}", "--wallet.path=wallets"]
    command = [
        *("validator", "run", "--wallet.name=validator", "--axon.port=0", *on_chain),
        *(f"--model.base-url={shopper.base_url}", "--model.name=scripted-shopper-careful"),
        f"--race-every-h={EVERY_S / 3600}",
    ]
    data_dir = open_folder / "arena-data"
    with Running(open_folder, command) as first:
        url = await asyncio.to_thread(lambda: first.wait_for("takes submissions at").split()[-1])
        sent = await asyncio.to_thread(
            arena,
            open_folder,
            *(
                "miner",
                "submit",
                "--register",
                "--agent",
                str(AGENT),
                f"--api.url={url}",
                "--wallet.name=miner",
                *on_chain,
            ),
        )
        assert sent.returncode == 0, sent.stderr
        number, done = await _in_the_middle_of_a_race(data_dir)
        async with httpx.AsyncClient(base_url=url) as client:
            state: dict[str, Any] = (await client.get("/v1/status")).json()
        assert not state["idle"]
        assert {part["failures"] for part in state["parts"].values()} == {0}
        family = first.family()
        assert await asyncio.to_thread(first.stop, deadline_s=STOPPED_WITHIN_S) == 0
        assert psutil.wait_procs(family, timeout=0)[1] == []
    busy = arena(open_folder, "validator", "idle")
    assert (busy.returncode, busy.stdout) == (75, f"busy: race {number} is racing\n")

    with Running(open_folder, command):
        kept = await _settled(data_dir, number)
        assert done <= kept
        async with asyncio.timeout(SETTLED_S):
            while await chain.registered(miner.hotkey.ss58_address) not in await chain.weights(uid):  # noqa: ASYNC110  # what it waits for is on the chain
                await asyncio.sleep(0.2)
        verified = arena(open_folder, "race", "verify", str(number), "--json")
    assert verified.returncode == 0, verified.stdout
    assert "differs" not in json.dumps(json.loads(verified.stdout))


async def _in_the_middle_of_a_race(data_dir: Path) -> tuple[int, set[tuple[Any, str]]]:
    """The number of a race that is being run, and which of its episodes are over already."""
    async with asyncio.timeout(SETTLED_S), Database.open(None, data_dir) as database:
        while True:
            async with database.session() as session:
                race = await session.scalar(select(Race).where(Race.state == "racing"))
                if race is not None:
                    done = await _done(session, race)
                    if len(done) >= 2:
                        return race.number, done
            await asyncio.sleep(0.02)


async def _settled(data_dir: Path, number: int) -> set[tuple[Any, str]]:
    async with asyncio.timeout(SETTLED_S), Database.open(None, data_dir) as database:
        while True:
            async with database.session() as session:
                race = (await session.scalars(select(Race).where(Race.number == number))).one()
                if race.state in ("settled", "void"):
                    assert race.state == "settled", race.void_reason
                    return await _done(session, race)
            await asyncio.sleep(0.1)


async def _done(session: Any, race: Race) -> set[tuple[Any, str]]:
    episodes = select(Episode).where(Episode.race_id == race.id, Episode.state == "done")
    return {(episode.id, str(episode.attempts)) for episode in await session.scalars(episodes)}
