from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from bittensor._transport.interface import SubstrateConnection
from bittensor.keyfiles import Keypair
from websockets.asyncio.client import connect

from neurons.localnet import metadata as metadata_module
from neurons.localnet import subnet
from neurons.localnet.blocks import Blockchain
from neurons.localnet.codec import Codec
from neurons.localnet.launch import LocalNet, LocalNetFailed
from neurons.localnet.metadata import MetadataUnavailable
from neurons.localnet.state import Draft, Ledger, StateDiscarded, StateInUse
from neurons.localnet.subnet import PALLET, SubnetOptions
from tests.neurons.conftest import NETUID
from tests.neurons.localnet.sdk import sdk_client

ALICE, BOB = Keypair.create_from_uri("//Alice"), Keypair.create_from_uri("//Bob")


@pytest.fixture(scope="module")
def codec(metadata: Path) -> Codec:
    return Codec(metadata_module.load())


def _genesis(state: Draft) -> None:
    subnet.fund(state, ALICE.ss58_address, 100.0)
    subnet.create(
        state,
        NETUID,
        owner_coldkey=BOB.ss58_address,
        owner_hotkey=BOB.ss58_address,
        block=0,
        options=SubnetOptions(tempo=3),
    )


def _chain(codec: Codec, ledger: Ledger) -> Blockchain:
    ticks = iter(range(1_000, 10**9, 250))
    return Blockchain(codec, ledger, clock_ms=lambda: next(ticks), genesis=_genesis)


async def _signed(url: str, function: str, arguments: dict[str, object], **options: object) -> str:
    async with SubstrateConnection(url) as connection:
        call = await connection.compose_call(*function.split("."), arguments)
        extrinsic = await connection.create_signed_extrinsic(call, ALICE, era={"period": 64}, **options)
        report = await connection.submit_extrinsic(extrinsic, wait_for_inclusion=True)
    return "" if report.is_success else str(report.error_message)


REGISTRATION = {"netuid": NETUID, "hotkey": ALICE.ss58_address}


async def test_a_bad_signature_does_not_enter_the_pool(localnet: LocalNet) -> None:
    with pytest.raises(Exception, match="bad signature"):
        await _signed(localnet.url, "SubtensorModule.burned_register", REGISTRATION, signature=b"\x01" * 64)


async def test_a_nonce_is_used_once(localnet: LocalNet) -> None:
    commit = {"netuid": NETUID, "info": {"fields": [[{"Raw1": b"x"}]]}}
    refused = await _signed(localnet.url, "Commitments.set_commitment", commit, nonce=0)
    assert "AccountNotAllowedCommit" in refused
    with pytest.raises(Exception, match="outdated"):
        await _signed(localnet.url, "Commitments.set_commitment", commit, nonce=0)


async def test_a_call_without_rules_here_fails_instead_of_seeming_to_work(localnet: LocalNet) -> None:
    transfer = {"dest": BOB.ss58_address, "value": 1}
    assert "CallFiltered" in await _signed(localnet.url, "Balances.transfer_keep_alive", transfer)


@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "3",
        "[1, {}]",
        '{"id": 1, "method": "no_such_method"}',
        '{"id": 1, "method": "author_submitExtrinsic", "params": ["0x0400"]}',
        '{"id": 1, "method": "author_submitExtrinsic", "params": ["zz"]}',
        '{"id": 1, "method": "author_submitExtrinsic", "params": []}',
        '{"id": 1, "method": "state_getStorage", "params": ["0x00", "0x12"]}',
        '{"id": 1, "method": "state_call", "params": ["NoApi_method", "0x"]}',
        '{"id": 1, "method": "chain_getBlockHash", "params": ["x"]}',
        '{"id": 1, "method": "localnet_setStake", "params": [2]}',
    ],
)
async def test_a_request_that_makes_no_sense_gets_an_error_and_harms_nobody(
    localnet: LocalNet, frame: str
) -> None:
    async with connect(localnet.url, proxy=None) as socket, asyncio.timeout(20):
        await socket.send(frame)
        answer = json.loads(await socket.recv())
        assert all("error" in each for each in (answer if isinstance(answer, list) else [answer]))
        await socket.send('{"id": 2, "method": "chain_getHead"}')
        assert json.loads(await socket.recv())["result"].startswith("0x")


async def test_heads_are_streamed_in_order(localnet: LocalNet) -> None:
    async with asyncio.timeout(30), sdk_client(localnet.url) as client:
        numbers: list[int] = []
        async with contextlib.aclosing(client.blocks()) as headers:
            async for header in headers:
                numbers.append(header.number)
                if len(numbers) == 4:
                    break
    assert numbers == list(range(numbers[0], numbers[0] + 4))


async def test_neurons_and_subnet_are_read_through_every_path_of_the_sdk(localnet: LocalNet) -> None:
    async with sdk_client(localnet.url) as client:
        graph = await client.subnets.metagraph(NETUID)
        neurons = await client.neurons.all(netuid=NETUID)
        rate_limit = await client.hyperparameters.weights_rate_limit(netuid=NETUID)
        assert await client.spec_version() == 461
    assert [n.hotkey for n in graph][: len(neurons)] == [n.hotkey for n in neurons]
    assert rate_limit == graph.raw["weights_rate_limit"]


def test_admin_orders_that_make_no_sense_are_refused_with_the_reason(localnet: LocalNet) -> None:
    with pytest.raises(LocalNetFailed, match="exists already"):
        localnet.create_subnet(NETUID, owner_coldkey=ALICE.ss58_address, owner_hotkey=ALICE.ss58_address)
    with pytest.raises(LocalNetFailed, match="negative"):
        localnet.fund(ALICE.ss58_address, -1.0)
    with pytest.raises(LocalNetFailed):
        localnet.fund("not an address", 1.0)


def test_the_same_clock_and_orders_make_the_same_chain(codec: Codec) -> None:
    hashes = []
    for _ in range(2):
        chain = _chain(codec, Ledger(None))
        chain.order(lambda state, _: subnet.set_stake(state, NETUID, BOB.ss58_address, 5.0), lambda *_: None)
        hashes.append([chain.produce().hash for _ in range(5)])
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 5


def test_a_reopened_ledger_goes_on_from_its_last_block(codec: Codec, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "chain.db")
    chain = _chain(codec, ledger)
    chain.order(lambda state, _: subnet.fund(state, BOB.ss58_address, 7.0), lambda *_: None)
    last = [chain.produce() for _ in range(3)][-1]
    ledger.close()

    reopened = Ledger(tmp_path / "chain.db")
    again = _chain(codec, reopened)
    assert again.head == last
    assert again.view().get("System", "Account", BOB.ss58_address)["data"]["free"] == 7 * 10**9
    assert again.produce().header["parentHash"] == last.hash
    reopened.close()


def test_a_failed_order_leaves_no_trace(codec: Codec) -> None:
    chain = _chain(codec, Ledger(None))

    def fails(state: Draft, _: int) -> None:
        subnet.fund(state, BOB.ss58_address, 7.0)
        raise ValueError("no")

    told: list[ValueError | None] = []
    chain.order(fails, lambda _, error: told.append(error))
    chain.produce()
    assert [str(error) for error in told] == ["no"]
    assert chain.view().get("System", "Account", BOB.ss58_address)["data"]["free"] == 0


def test_state_of_recent_blocks_is_kept_and_older_state_is_discarded(codec: Codec) -> None:
    ledger = Ledger(None, history_blocks=16)
    chain = _chain(codec, ledger)
    blocks = [chain.head, *(chain.produce() for _ in range(64))]
    for block in blocks[-16:]:
        assert chain.view(block).get("System", "Number") == block.number
        assert chain.view(block).get(PALLET, "SubnetOwner", NETUID) == BOB.ss58_address
    with pytest.raises(StateDiscarded):
        chain.view(blocks[-17])
    prefix = codec.storage_key(PALLET, "NetworksAdded")
    assert chain.view(blocks[-5]).reader.keys(prefix, prefix, 10) == ledger.keys(prefix, prefix, 10)


def test_a_chain_in_memory_forgets_blocks_whose_state_it_forgot(codec: Codec) -> None:
    chain = _chain(codec, Ledger(None, history_blocks=16))
    for _ in range(64):
        chain.produce()
    assert chain.block_at(20) is None
    assert chain.block_at(0) == chain.genesis
    assert chain.block_at(50) is not None


def test_two_nodes_cannot_have_the_same_state_file(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "chain.db")
    with pytest.raises(StateInUse, match="another node"):
        Ledger(tmp_path / "chain.db", lock_deadline_s=0.1)
    first.close()
    Ledger(tmp_path / "chain.db", lock_deadline_s=0.1).close()


def test_a_node_stops_when_the_process_that_started_it_is_gone(metadata: Path, tmp_path: Path) -> None:
    script = (
        "import os\n"
        "from neurons.localnet.launch import LocalNet\n"
        "net = LocalNet(block_time_s=0.05).start()\n"
        "print(net.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=60, env=os.environ
    )
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(timeout=20)


def test_a_node_that_cannot_start_says_why(metadata: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "chain.db"
    blocked.mkdir()
    with pytest.raises(LocalNetFailed, match="unable to open"):
        LocalNet(state=blocked).start()


def test_without_an_index_the_error_says_how_to_get_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_CACHE_DIR", str(tmp_path))
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(MetadataUnavailable, match=r"python -m neurons\.localnet\.metadata"):
        metadata_module.ensure()


def test_a_damaged_cached_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / f"subtensor-golden-{metadata_module.METADATA_SDK}.json").write_text("{}")
    with pytest.raises(MetadataUnavailable):
        metadata_module.ensure()
