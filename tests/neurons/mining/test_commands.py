"""The miner's commands as people give them, on a local chain."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

from neurons.chain import Chain
from neurons.chain_types import Endpoint
from neurons.localnet.launch import LocalNet
from neurons.serving import serving
from neurons.validator import Validator
from neurons.wallets import demo_wallet
from tests.neurons.commands import Running, arena
from tests.neurons.conftest import NETUID
from tests.neurons.mining.test_collecting import SOURCE, validator  # noqa: F401  # a fixture

EVER_S = 40.0


async def test_a_node_registers_commits_and_announces_itself_and_stops_when_told(
    localnet: LocalNet, chain: Chain, open_folder: Path
) -> None:
    (open_folder / "agent.py").write_bytes(SOURCE)
    wallet = demo_wallet("m", open_folder / "wallets", network=localnet.url)
    localnet.fund(wallet.coldkey.ss58_address, 10.0)
    hotkey = wallet.hotkey.ss58_address
    command = [
        *("miner", "run", "--register", "--agent=agent.py", "--axon.port=0", "--axon.external_ip=127.0.0.1"),
        *(f"--netuid={NETUID}", f"--subtensor.network={localnet.url}", "--wallet.name=m"),
        "--wallet.path=wallets",
    ]
    with Running(open_folder, command) as node:
        said = await asyncio.to_thread(node.wait_for, "serves its agent")
        async with asyncio.timeout(EVER_S):
            while (
                (found := await chain.commitment(hotkey)) is None
                or (neuron := (await chain.metagraph()).of(hotkey)) is None
                or neuron.endpoint is None
            ):
                await chain.wait_for_block((await chain.head()).number + 2, deadline_s=10)
        assert found.content == hashlib.sha256(SOURCE).digest()
        assert said.strip().endswith(str(neuron.endpoint.port))
        assert await asyncio.to_thread(node.stop) == 0


async def test_a_submission_goes_to_every_validator_and_who_is_down_is_said(
    localnet: LocalNet,
    chain: Chain,
    validator: Validator,  # noqa: F811
    open_folder: Path,
) -> None:
    (open_folder / "agent.py").write_bytes(SOURCE)
    for name in ("m", "away"):
        wallet = demo_wallet(name, open_folder / "wallets", network=localnet.url)
        localnet.fund(wallet.coldkey.ss58_address, 10.0)
        await chain.register(wallet)
    named = ("--agent=agent.py", f"--netuid={NETUID}", f"--subtensor.network={localnet.url}")
    flags = (*named, "--wallet.name=m", "--wallet.path=wallets", "--json")
    async with serving(validator.app(), "127.0.0.1", 0) as url:
        await chain.serve(validator._parts.wallet, Endpoint("127.0.0.1", int(url.rpartition(":")[2])))
        sent = await asyncio.to_thread(arena, open_folder, "miner", "submit", *flags)
        told = {v["validator"]: v for v in json.loads(sent.stdout)["validators"]}
        assert told[validator.hotkey]["code"] == "taken", sent.stdout
        status = await asyncio.to_thread(arena, open_folder, "miner", "status", *flags)
        seen = {v["validator"]: v for v in json.loads(status.stdout)["validators"]}
        assert seen[validator.hotkey]["state"] == "accepted"
        feedback = await asyncio.to_thread(arena, open_folder, "miner", "feedback", *flags)
        assert json.loads(feedback.stdout)["validators"][validator.hotkey] == []
        withdrawn = await asyncio.to_thread(arena, open_folder, "miner", "withdraw", *flags)
        assert validator.hotkey in withdrawn.stdout
        again = await asyncio.to_thread(arena, open_folder, "miner", "status", *flags)
        states = {v["validator"]: v["state"] for v in json.loads(again.stdout)["validators"]}
        assert states[validator.hotkey] == "withdrawn"
