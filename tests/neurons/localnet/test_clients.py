"""Programs that are not ours, unmodified, reading the local chain; and `arena localnet`, which runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bittensor.keyfiles import Keypair
from typer.testing import CliRunner

from neurons.commands.localnet import app
from neurons.localnet import metadata as metadata_module
from neurons.localnet.blocks import Blockchain
from neurons.localnet.codec import Codec
from neurons.localnet.door import Door
from neurons.localnet.launch import LocalNet, LocalNetFailed
from neurons.localnet.state import Draft, Ledger
from neurons.localnet.subnet import SubnetOptions
from tests.neurons.conftest import NETUID

SDK10 = os.environ.get("LOCALNET_SDK10_PYTHON")
ALICE = Keypair.create_from_uri("//Alice")
BINARIES = Path(sys.executable).parent
DEADLINE_S = 60


def _run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_btcli_shows_our_subnet(localnet: LocalNet, tmp_path: Path) -> None:
    found = _run(
        [str(BINARIES / "btcli"), "-n", localnet.url, "query", "metagraph", f"--netuid={NETUID}", "--json"],
        BITTENSOR_RUNTIME_CACHE_DIR=str(tmp_path),
        BTCLI_TOKEN_SYMBOLS_CACHE=str(tmp_path / "symbols.json"),
    )
    graph = json.loads(found)
    assert graph["netuid"] == NETUID
    ours = [neuron["hotkey"] for neuron in localnet.show(NETUID)]
    assert graph["hotkeys"] == ours[: len(graph["hotkeys"])]
    assert ours[0] in graph["hotkeys"]


@pytest.mark.skipif(SDK10 is None, reason="LOCALNET_SDK10_PYTHON names no interpreter that has bittensor 10")
def test_sdk_10_reads_the_same_subnet(localnet: LocalNet) -> None:
    assert SDK10 is not None
    script = (
        "import json, sys, bittensor as bt\n"
        "graph = bt.Subtensor(sys.argv[1]).metagraph(int(sys.argv[2]))\n"
        "print(json.dumps([bt.__version__, graph.hotkeys, list(map(bool, graph.validator_permit))]))\n"
    )
    said = _run([SDK10, "-c", script, localnet.url, str(NETUID)]).splitlines()[-1]
    version, hotkeys, permits = json.loads(said)
    assert version.startswith("10.")
    neurons = localnet.show(NETUID)
    assert [(n["hotkey"], n["validator_permit"]) for n in neurons][: len(hotkeys)] == list(
        zip(hotkeys, permits, strict=True)
    )


@contextmanager
def _node(*options: str) -> Iterator[tuple[Door, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "neurons.cli", "localnet", "start", "--port=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = node.stdout.readline()
            assert ready.startswith("ready ws://127.0.0.1:"), ready
            yield Door(ready.split()[1]), node
        finally:
            node.kill()


def _arena(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_killed_node_goes_on_from_its_last_block(metadata: Path, tmp_path: Path) -> None:
    kept = (f"--data-dir={tmp_path}", "--block-time=0")
    with _node(*kept, "--netuid=7", "--set=tempo=5", "--fund=//Alice=3") as (door, node):
        door.set_stake(7, ALICE.ss58_address, 5.0)
        before = door.advance(12)
        genesis = door.info()["genesis"]
        node.send_signal(signal.SIGKILL)
        node.wait(DEADLINE_S)
    with _node(*kept) as (door, _):
        info = door.info()
        assert (info["block"], info["genesis"], info["netuids"]) == (before, genesis, [7])
        assert door.advance() == before + 1
        shown = json.loads(_arena("show", f"--url={door.url}", "--netuid=7", "--json"))
        assert [n["uid"] for n in shown["neurons"]] == [0]


def test_the_commands_change_the_chain_and_say_in_which_block(metadata: Path) -> None:
    with _node("--block-time=0", "--faults", "--finality-lag=1") as (door, _):
        url = f"--url={door.url}"
        assert "subnet 4 exists since block 1" in _arena("subnet", "4", "--set=commit_reveal=yes", url)
        assert "has 2.5 TAO more, in block 2" in _arena("fund", "//Alice", "2.5", url)
        assert "9 staked on subnet 4, in block 3" in _arena("stake", "//Owner", "9", "--netuid=4", url)
        assert "block 13" in _arena("advance", "10", url)
        assert "the newest block is now 0x" in _arena("reorg", url)
        assert '"kind": "slow"' in _arena("fault", "slow", "--seconds=1", "--times=0", url)
        assert "1 faults cleared" in _arena("fault", "clear", url)
        assert "runtime 500 since block" in _arena("upgrade", "500", url)
        told = _arena("show", "--netuid=4", url)
        assert "runtime 500" in told
        assert Keypair.create_from_uri("//Owner").ss58_address in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("fund", "nobody", "1"), "neither a key URI nor an SS58 address"),
        (("subnet", "3", "--set=colour=red"), "no option 'colour'"),
        (("subnet", "3", "--set=tempo=fast"), "not a value for tempo"),
        (("fault", "explode"), "there is no fault"),
    ],
)
def test_a_command_that_makes_no_sense_says_why(arguments: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}, catch_exceptions=False)
    assert done.exit_code == 2
    assert why in done.output


def test_a_node_that_is_not_there_is_told_in_one_sentence() -> None:
    with pytest.raises(LocalNetFailed, match="did not answer localnet_advance"):
        CliRunner().invoke(app, ("advance", "1", "--url=ws://127.0.0.1:9"), catch_exceptions=False)


def test_a_seed_makes_the_same_chain_again(metadata: Path) -> None:
    def hashes(seed: int) -> list[str]:
        with LocalNet(block_time_s=0.0, seed=seed, netuid=2, options=SubnetOptions(tempo=3)) as net:
            net.fund(ALICE.ss58_address, 5.0)
            net.set_stake(2, ALICE.ss58_address, 10.0)
            return [net.info()["genesis"], *(_hash(net, net.advance()) for _ in range(4))]

    first = hashes(7)
    assert hashes(7) == first
    assert not set(hashes(8)) & set(first)


def _hash(net: LocalNet, number: int) -> str:
    found: Any = net._order("chain_getBlockHash", [number])
    return str(found)


def test_a_hash_follows_from_what_was_said_and_not_from_the_signature(metadata: Path) -> None:
    """A signature is different each time: two runs of one script must still draw the same hidden set."""
    codec = Codec(metadata_module.load())

    def genesis(state: Draft) -> None:
        return None

    def block_hash() -> str:
        ticks = iter(range(1_000, 10**6, 250))
        chain = Blockchain(codec, Ledger(None), clock_ms=lambda: next(ticks), genesis=genesis, seed=1)
        call = codec.compose_call("Balances", "transfer_keep_alive", {"dest": ALICE.ss58_address, "value": 1})
        payload = codec.runtime.signature_payload(
            call,
            era="00",
            nonce=0,
            tip=0,
            tip_asset_id=None,
            genesis_hash=bytes.fromhex(chain.genesis.hash[2:]),
            era_block_hash=bytes.fromhex(chain.genesis.hash[2:]),
        )
        signed, _ = codec.runtime.encode_signed_extrinsic(
            call,
            public_key=bytes(ALICE.public_key),
            signature=ALICE.sign(bytes(payload)),
            signature_version=1,
            era="00",
            nonce=0,
            tip=0,
            tip_asset_id=None,
        )
        chain.submit(bytes(signed))
        block = chain.produce()
        assert len(block.extrinsics) == 2
        return block.hash

    assert block_hash() == block_hash()
