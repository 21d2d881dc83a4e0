"""Faults on demand, as the SDK and a bare WebSocket see them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bittensor as bt
import pytest
from bittensor.keyfiles import Keypair
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from neurons.localnet.faults import KINDS, Fault, Faults
from neurons.localnet.launch import LocalNet, LocalNetFailed
from neurons.localnet.subnet import SubnetOptions
from tests.neurons.localnet.sdk import sdk_client

NETUID = 2
ALICE = Keypair.create_from_uri("//Alice")
OPTIONS = SubnetOptions(tempo=10, weights_rate_limit=0, stake_threshold_tao=0.0)


@pytest.fixture(scope="module")
def faulty(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNet]:
    log = tmp_path_factory.mktemp("faulty") / "node.log"
    with LocalNet(
        netuid=NETUID,
        options=OPTIONS,
        owner="//Alice",
        fund={"//Alice": 10.0},
        block_time_s=0.05,
        finality_lag=2,
        faults=True,
        log=log,
    ) as net:
        yield net


@pytest.fixture(autouse=True)
def _cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "faulty" in request.fixturenames:
        request.getfixturevalue("faulty").clear_faults()


async def _ask(socket: Any, method: str, *parameters: Any) -> dict[str, Any]:
    await socket.send(json.dumps({"id": 1, "method": method, "params": list(parameters)}))
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer


async def test_a_dropped_request_cuts_the_connection_once(faulty: LocalNet) -> None:
    faulty.fault(Fault("drop", method="chain_getHead"))
    async with asyncio.timeout(20), connect(faulty.url, proxy=None) as socket:
        assert "result" in await _ask(socket, "system_name")
        with pytest.raises(ConnectionClosed):
            await _ask(socket, "chain_getHead")
    async with asyncio.timeout(20), connect(faulty.url, proxy=None) as socket:
        assert "result" in await _ask(socket, "chain_getHead")


async def test_a_hanging_request_is_not_answered_and_others_are(faulty: LocalNet) -> None:
    faulty.fault(Fault("hang", method="chain_getHead"))
    async with asyncio.timeout(20), connect(faulty.url, proxy=None) as socket:
        await socket.send(json.dumps({"id": 7, "method": "chain_getHead"}))
        await socket.send(json.dumps({"id": 8, "method": "system_name"}))
        assert json.loads(await socket.recv())["id"] == 8


async def test_a_slow_request_is_answered_late(faulty: LocalNet) -> None:
    faulty.fault(Fault("slow", method="chain_getHead", seconds=0.5))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20), connect(faulty.url, proxy=None) as socket:
        began = loop.time()
        assert "result" in await _ask(socket, "chain_getHead")
        assert loop.time() - began >= 0.5


async def test_the_sdk_sees_a_refusal_as_the_policy_of_the_endpoint(faulty: LocalNet) -> None:
    async with sdk_client(faulty.url) as client:
        await client.block()
        faulty.fault(Fault("refuse", times=0))
        with pytest.raises(Exception, match="rate limit exceeded"):
            await client.block()
        faulty.clear_faults()
        assert await client.block() > 0


async def test_a_rejected_extrinsic_is_not_in_the_pool(faulty: LocalNet) -> None:
    async with sdk_client(faulty.url) as client:
        faulty.fault(Fault("reject"))
        intent = bt.SetWeights(netuid=NETUID, weights={0: 1})
        refused = await client.execute(intent, ALICE)
        assert not refused.success
        assert "Invalid Transaction" in str(refused.error)
        assert (await client.execute(intent, ALICE)).success


async def test_a_call_fails_with_the_error_that_was_asked_for(faulty: LocalNet) -> None:
    async with sdk_client(faulty.url) as client:
        call = "SubtensorModule.set_mechanism_weights"
        faulty.fault(Fault("fail", method=call, error="SubtensorModule.SettingWeightsTooFast"))
        intent = bt.SetWeights(netuid=NETUID, weights={0: 1})
        failed = await client.execute(intent, ALICE)
        assert failed.error.name == "SettingWeightsTooFast"
        assert (await client.execute(intent, ALICE)).success


async def test_a_lost_answer_is_one_to_a_call_that_was_carried_out(faulty: LocalNet) -> None:
    async with sdk_client(faulty.url) as client:
        before = (await client.query(("System", "Account"), [ALICE.ss58_address]))["nonce"]
        faulty.fault(Fault("lose", method="author_submit*"))
        intent = bt.SetWeights(netuid=NETUID, weights={0: 1})
        assert not (await client.execute(intent, ALICE)).success
        await client.wait_for_block(await client.block() + 2, timeout=20)
        assert (await client.query(("System", "Account"), [ALICE.ss58_address]))["nonce"] == before + 1


async def test_a_missing_entry_reads_as_its_default(faulty: LocalNet) -> None:
    async with sdk_client(faulty.url) as client:
        assert await client.neurons.uid(hotkey_ss58=ALICE.ss58_address, netuid=NETUID) == 0
        faulty.fault(Fault("missing", entry="SubtensorModule.Uids", times=0))
        assert await client.neurons.uid(hotkey_ss58=ALICE.ss58_address, netuid=NETUID) is None
        with pytest.raises(bt.ChainError, match="not registered"):
            await client.execute(bt.SetWeights(netuid=NETUID, weights={0: 1}), ALICE)


async def test_a_reorg_replaces_the_newest_block_and_what_was_in_it_comes_again(faulty: LocalNet) -> None:
    async with asyncio.timeout(30), sdk_client(faulty.url) as client:
        number = await client.block()
        seen: list[tuple[int, str]] = []
        async with contextlib.aclosing(client.blocks()) as headers:
            async for header in headers:
                seen.append((header.number, header.parent_hash))
                if len(seen) == 2:
                    await asyncio.to_thread(faulty.reorg)
                if len(seen) == 6:
                    break
    numbers = [n for n, _ in seen]
    assert number <= numbers[0]
    repeated = [n for n in numbers if numbers.count(n) == 2]
    assert len(set(repeated)) == 1, numbers
    assert numbers[-1] > numbers[0]


def test_a_block_that_is_final_is_not_replaced(metadata: Path) -> None:
    with LocalNet(block_time_s=0.0, faults=True) as net:
        net.advance(3)
        with pytest.raises(LocalNetFailed, match="finality-lag"):
            net.reorg()


async def test_the_sdk_sees_a_runtime_upgrade(
    metadata: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the SDK keeps on disk it finds by genesis and version, and other tests upgrade too.
    monkeypatch.setenv("BITTENSOR_RUNTIME_CACHE_DIR", str(tmp_path))
    with LocalNet(
        netuid=NETUID,
        options=OPTIONS,
        owner="//Alice",
        fund={"//Alice": 10.0},
        block_time_s=0.05,
        faults=True,
    ) as net:
        async with sdk_client(net.url) as client:
            assert await client.spec_version() == 461
            assert (await client.execute(bt.SetWeights(netuid=NETUID, weights={0: 1}), ALICE)).success
            before = await client.block()
            net.upgrade(462, without=["SubtensorModule.SubnetEpochConsensus"])
            with pytest.raises(LocalNetFailed, match="higher version"):
                net.upgrade(462)
        net.advance(2)  # so that the newest block is surely one of the new runtime
        async with sdk_client(net.url) as client:
            assert await client.spec_version() == 462
            with pytest.raises(Exception, match="SubnetEpochConsensus"):
                await client.execute(bt.SetWeights(netuid=NETUID, weights={0: 1}), ALICE)
            call = bt.calls.SubtensorModule.set_weights(netuid=NETUID, dests=[0], weights=[1], version_key=0)
            assert (await client.submit_call(call, ALICE, signer="hotkey")).success
            assert (await client.at(before)).block == before


def test_faults_must_be_asked_for_when_the_node_starts(localnet: LocalNet) -> None:
    for order in (
        lambda: localnet.fault(Fault("drop")),
        localnet.clear_faults,
        localnet.reorg,
        lambda: localnet.upgrade(999),
    ):
        with pytest.raises(LocalNetFailed, match="--faults"):
            order()


async def test_a_web_page_may_not_connect(localnet: LocalNet) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        await connect(localnet.url, proxy=None, origin="https://example.com")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"kind": "explode"}, "there is no fault"),
        ({"kind": "drop", "times": -1}, "times"),
        ({"kind": "slow"}, "seconds"),
        ({"kind": "slow", "seconds": 10**6}, "seconds"),
        ({"kind": "fail"}, r"Pallet\.Name"),
        ({"kind": "missing", "entry": "Uids"}, r"Pallet\.Name"),
        ({"kind": "drop", "colour": "red"}, "colour"),
    ],
)
def test_a_fault_that_makes_no_sense_says_why(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Fault.of(asked)


def test_a_fault_is_for_its_methods_and_its_number_of_times() -> None:
    faults = Faults()
    faults.inject(Fault("drop", method="chain_*", times=2))
    assert faults.take("system_name", *KINDS) is None
    assert [faults.take("chain_getHead", *KINDS) is not None for _ in range(3)] == [True, True, False]
    faults.inject(Fault("drop", times=0))
    assert all(faults.take("any", "drop") for _ in range(10))
    assert faults.clear() == 1
    assert faults.take("any", "drop") is None


def test_unknown_entries_and_errors_are_refused_when_they_are_injected(faulty: LocalNet) -> None:
    with pytest.raises(LocalNetFailed, match="Nothing"):
        faulty.fault(Fault("missing", entry="SubtensorModule.Nothing"))
    with pytest.raises(LocalNetFailed, match="no error"):
        faulty.fault(Fault("fail", error="SubtensorModule.Nothing"))
    assert faulty.info()["faults"] == []
