"""What people come to do, by the commands they do it with, against a chain on this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
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
from storage.tables import Episode
from tests.neurons.commands import ROOT, Running, arena
from tests.neurons.conftest import NETUID

AGENT = ROOT / "arena" / "samples" / "model_driven.py"
BURN_UID = 0
SETTINGS = """
[problems]
seed = 5
products = 300
pool = 6

[rules]
public_size = 3
drawn_size = 3

[sandbox]
slots = 1
"""
EVERY_S = 4
SETTLED_S = 90.0


@pytest.fixture
def shopper() -> Iterator[ShopperServer]:
    with ShopperServer() as server:
        yield server


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_submissions_are_raced_paid_for_and_exported_by_the_commands(
    localnet: LocalNet, chain: Chain, shopper: ShopperServer, open_folder: Path
) -> None:
    (open_folder / "arena.toml").write_text(SETTINGS)
    funded = _funded(localnet, open_folder / "wallets")
    validator = funded("validator")
    uid = await chain.register(validator)
    localnet.set_stake(NETUID, validator.hotkey.ss58_address, 5000.0)
    miner = funded("miner")
    data_dir = open_folder / "arena-data"
    on_chain = [f"--netuid={NETUID}", f"--subtensor.network={localnet.url}", "--wallet.path=wallets"]
    model = [f"--model.base-url={shopper.base_url}", "--model.name=scripted-shopper-careful"]

    def mine() -> Any:
        to = ["--agent", str(AGENT), f"--api.url={api_url}", "--wallet.name=miner", "--json"]
        return arena(open_folder, "miner", "submit", "--register", *to, *on_chain)

    with Running(
        open_folder,
        [
            *("validator", "run", "--wallet.name=validator", "--api.port=0", *on_chain, *model),
            f"--race-every-h={EVERY_S / 3600}",
        ],
    ) as running:
        api_url = running.wait_for("takes submissions at").split()[-1]
        with Running(open_folder, ["worker", *model]) as worker:
            sent = await asyncio.to_thread(mine)
            assert (sent.returncode, sent.stderr) == (0, "")
            assert json.loads(sent.stdout)["commitment_block"]

            assert await _players(data_dir, 2) == {running.pid, worker.pid}
            settled = await asyncio.to_thread(_settled, api_url, 1)
            await asyncio.to_thread(running.wait_for, "stand on the chain")
            units = settled["settlement"]["payout"]["units"]
            assert units[miner.hotkey.ss58_address] > 0
            weights = await chain.weights(uid)
            assert weights.keys() == {BURN_UID, await chain.registered(miner.hotkey.ss58_address)}

            exported = arena(open_folder, "traces", "export", "--format=openai", "--out=traces")
            assert (exported.returncode, exported.stderr) == (0, "")
            lines = [json.loads(line) for line in (open_folder / "traces" / "traces.jsonl").open()]
            assert {line["metadata"]["agent"]["name"] for line in lines} == {AGENT.stem}
            assert all(line["messages"] and line["tools"] for line in lines)

            assert worker.stop() == 0
            alone = await asyncio.to_thread(_settled, api_url, 2)
            assert alone["entrants"] == 1
            assert alone["settlement"]["payout"]["units"].keys() == units.keys()
        family = running.family()
        assert running.stop() == 0
        assert psutil.wait_procs(family, timeout=10)[1] == []
    assert _users_of(open_folder) == []


def _funded(localnet: LocalNet, folder: Path) -> Callable[[str], Wallet]:
    def make(name: str) -> Wallet:
        wallet = demo_wallet(name, folder, network=localnet.url)
        localnet.fund(wallet.coldkey.ss58_address, 10.0)
        return wallet

    return make


async def _players(data_dir: Path, number: int) -> set[int]:
    """The first processes that are seen to play episodes of the validator in `data_dir`."""
    seen: set[int] = set()
    async with asyncio.timeout(SETTLED_S), Database.open(None, data_dir) as database:
        while len(seen) < number:
            async with database.session() as session:
                names = await session.scalars(select(Episode.leased_by).where(Episode.state == "leased"))
            seen |= {int(name.rpartition("/")[0].rpartition(":")[2]) for name in names if name}
            await asyncio.sleep(0.02)
    return seen


def _settled(api_url: str, nth: int) -> dict[str, Any]:
    """The nth race that settled, asked for over HTTP."""
    until = time.monotonic() + SETTLED_S
    with httpx.Client(base_url=api_url) as client:
        while time.monotonic() < until:
            races = client.get("/v1/races").raise_for_status().json()["items"]
            numbers = sorted(race["number"] for race in races if race["state"] == "settled")
            if len(numbers) >= nth:
                found: dict[str, Any] = client.get(f"/v1/races/{numbers[nth - 1]}").json()
                return found
            time.sleep(0.2)
    raise AssertionError(f"no race settled, only {races}")


def _users_of(folder: Path) -> list[str]:
    """Processes that were told of the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if str(folder) in " ".join(process.info["cmdline"] or []) + (process.info["cwd"] or ""):
            found.append(str(process))
    return found
