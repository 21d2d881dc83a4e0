"""What calls and epochs do to a subnet, seen by the unmodified SDK.

The chain makes a block for each call and else stands still, so that what a test does in one epoch is in one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import bittensor as bt
import bittensor_core
import pytest
from bittensor.keyfiles import Keypair

from neurons.localnet import timelock
from neurons.localnet.codec import compact
from neurons.localnet.launch import LocalNet
from neurons.localnet.subnet import SubnetOptions
from tests.neurons.localnet.sdk import sdk_client

OWNER = Keypair.create_from_uri("//SubnetOwner")
_netuids = itertools.count(100)
_names = itertools.count()


@pytest.fixture(scope="module")
def net(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNet]:
    log = tmp_path_factory.mktemp("still") / "node.log"
    with LocalNet(block_time_s=0.0, log=log) as still:
        yield still


@pytest.fixture
async def client(net: LocalNet) -> AsyncIterator[Any]:
    async with sdk_client(net.url) as connected, asyncio.timeout(60):
        yield connected


def _subnet(net: LocalNet, **options: Any) -> int:
    netuid = next(_netuids)
    usual: dict[str, Any] = {"tempo": 20, "weights_rate_limit": 0, "serving_rate_limit": 0}
    address = OWNER.ss58_address
    net.create_subnet(
        netuid, owner_coldkey=address, owner_hotkey=address, options=SubnetOptions(**usual | options)
    )
    return netuid


async def _registered(client: Any, net: LocalNet, netuid: int, *, stake: float = 0.0) -> Keypair:
    key = Keypair.create_from_uri(f"//Key{next(_names)}")
    net.fund(key.ss58_address, 1.0)
    call = bt.calls.SubtensorModule.burned_register(netuid=netuid, hotkey=key.ss58_address)
    assert (await client.submit_call(call, key)).success
    if stake:
        net.set_stake(netuid, key.ss58_address, stake)
    return key


async def _epochs(client: Any, net: LocalNet, netuid: int, count: int = 1) -> Any:
    for _ in range(count):
        status = await client.epochs.epoch_status(netuid=netuid)
        net.advance(status["blocks_remaining"])
    return await client.subnets.metagraph(netuid)


async def _votes(client: Any, netuid: int, voter: Keypair, weights: dict[int, int]) -> None:
    result = await client.execute(bt.SetWeights(netuid=netuid, weights=weights), voter)
    assert result.success, result.message


async def test_a_majority_of_the_stake_decides_what_the_metagraph_says(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net)
    first = await _registered(client, net, netuid, stake=2000.0)
    second = await _registered(client, net, netuid, stake=2000.0)
    liar = await _registered(client, net, netuid, stake=3000.0)
    for _ in range(2):
        await _registered(client, net, netuid)
    for honest in (first, second):
        await _votes(client, netuid, honest, {4: 3, 5: 1})
    await _votes(client, netuid, liar, {5: 1})
    graph = await _epochs(client, net, netuid)
    assert [n.validator_permit for n in graph] == [True, True, True, True, False, False]
    assert graph.neurons[4].incentive == pytest.approx(0.75 * 4 / (0.75 * 4 + 0.25 * 7), abs=1e-3)
    assert graph.neurons[5].consensus == pytest.approx(0.25, abs=1e-3)
    assert graph.neurons[3].dividends < graph.neurons[1].dividends
    assert sum(n.incentive for n in graph) == pytest.approx(1.0, abs=1e-3)
    assert graph.neurons[4].emission.rao > graph.neurons[5].emission.rao > 0
    trust = await client.query(("SubtensorModule", "ValidatorTrust"), [netuid])
    assert [int(t) / 65535 for t in trust] == pytest.approx([0, 1, 1, 0.25, 0, 0], abs=1e-3)
    assert (await client.weights.bonds(netuid=netuid))[1][4] == pytest.approx(1.0)


async def test_a_full_subnet_gives_up_who_earns_least_outside_immunity(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, max_uids=4, immunity_period=0)
    voter = await _registered(client, net, netuid, stake=2000.0)
    poor = await _registered(client, net, netuid)
    rich = await _registered(client, net, netuid)
    await _votes(client, netuid, voter, {2: 1, 3: 5})
    await _epochs(client, net, netuid)
    newcomer = await _registered(client, net, netuid)
    graph = await client.subnets.metagraph(netuid)
    assert [n.hotkey for n in graph] == [k.ss58_address for k in (OWNER, voter, newcomer, rich)]
    assert await client.neurons.uid(hotkey_ss58=poor.ss58_address, netuid=netuid) is None
    assert graph.neurons[2].incentive == 0
    after = await _epochs(client, net, netuid)
    assert after.neurons[2].incentive == 0, "votes for the predecessor are none for the newcomer"
    assert after.neurons[3].incentive == pytest.approx(1.0, abs=1e-3)


async def test_a_newcomer_is_immune_for_a_while(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, max_uids=3, immunity_period=10_000)
    older = await _registered(client, net, netuid)
    newer = await _registered(client, net, netuid)
    # All are immune: then the earliest goes, but never the owner's.
    third = await _registered(client, net, netuid)
    hotkeys = [n.hotkey for n in await client.subnets.metagraph(netuid)]
    assert hotkeys == [k.ss58_address for k in (OWNER, third, newer)]
    assert older.ss58_address not in hotkeys


async def test_sealed_weights_show_after_the_reveal_period_and_not_before(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, commit_reveal=True)
    voter = await _registered(client, net, netuid, stake=2000.0)
    await _registered(client, net, netuid)
    await _epochs(client, net, netuid)
    with timelock.sealing_to_the_known_round():
        result = await client.execute(bt.SetWeights(netuid=netuid, weights={0: 1, 2: 3}), voter)
    assert result.success, result.message
    assert result.data["reveal_round"] == timelock.KNOWN_ROUND
    pending = await client.read("timelocked_weight_commits", netuid=netuid)
    assert [commit["hotkey"] for commits in pending.values() for commit in commits] == [voter.ss58_address]
    assert await client.weights.weights(netuid=netuid) == {}
    updated = (await client.subnets.metagraph(netuid)).neurons[1].last_update
    graph = await _epochs(client, net, netuid)
    assert await client.weights.weights(netuid=netuid) == {1: pytest.approx({0: 0.25, 2: 0.75}, abs=1e-4)}
    assert await client.read("timelocked_weight_commits", netuid=netuid) == {}
    assert graph.neurons[1].last_update == updated, "the update is the commit, not the reveal"
    assert graph.neurons[2].incentive == pytest.approx(0.75, abs=1e-3)


async def test_sealed_weights_whose_round_is_not_known_wait_and_are_dropped(
    net: LocalNet, client: Any
) -> None:
    netuid = _subnet(net, commit_reveal=True)
    voter = await _registered(client, net, netuid, stake=2000.0)
    await _epochs(client, net, netuid)
    await _votes(client, netuid, voter, {0: 1})  # The SDK's own round lies in the future.
    await _epochs(client, net, netuid)
    assert len(await client.read("timelocked_weight_commits", netuid=netuid)) == 1
    await _epochs(client, net, netuid)
    assert await client.read("timelocked_weight_commits", netuid=netuid) == {}
    assert await client.weights.weights(netuid=netuid) == {}


async def test_plain_weights_are_refused_where_they_must_be_sealed(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, commit_reveal=True)
    voter = await _registered(client, net, netuid, stake=2000.0)
    call = bt.calls.SubtensorModule.set_weights(netuid=netuid, dests=[0], weights=[1], version_key=0)
    result = await client.submit_call(call, voter, signer="hotkey")
    assert not result.success
    assert result.error.name == "CommitRevealEnabled"


async def test_an_endpoint_is_served_in_the_metagraph(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, serving_rate_limit=1000)
    miner = await _registered(client, net, netuid)
    served = bt.ServeAxon(netuid=netuid, ip="127.0.0.1", port=8091)
    assert (await client.execute(served, miner)).success
    graph = await client.subnets.metagraph(netuid)
    assert [n.axon for n in graph] == [None, "127.0.0.1:8091"]
    again = await client.execute(served, miner)
    assert again.error.name == "ServingRateLimitExceeded"
    stranger = await client.execute(served, Keypair.create_from_uri("//Stranger"))
    assert stranger.error.name == "HotKeyNotRegisteredInNetwork"


async def test_stake_is_bought_with_the_coldkeys_balance(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, stake_threshold_tao=1000.0)
    key = await _registered(client, net, netuid)
    net.fund(key.ss58_address, 1500.0)
    call = bt.calls.SubtensorModule.add_stake(
        hotkey=key.ss58_address, netuid=netuid, amount_staked=1200 * 10**9
    )
    assert (await client.submit_call(call, key)).success
    graph = await client.subnets.metagraph(netuid)
    assert graph.neurons[1].total_stake.rao == 1200 * 10**9
    assert graph.neurons[1].validator_permit
    assert (await client.balances.balance(coldkey_ss58=key.ss58_address)).tao < 301
    assert not (await client.submit_call(call, key)).success


async def test_a_sealed_commitment_is_revealed_by_the_chain(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net)
    miner = await _registered(client, net, netuid)
    # The SDK reads what was revealed as SCALE text, which begins with its length.
    text = b"the agent's hash"
    envelope, known = bittensor_core.encrypt_at_round(compact(len(text)) + text, timelock.KNOWN_ROUND)
    content = {"encrypted": bittensor_core.inner_ciphertext(envelope), "reveal_round": known}
    call = bt.calls.Commitments.set_commitment(
        netuid=netuid, info={"fields": [[{"TimelockEncrypted": content}]]}
    )
    assert (await client.submit_call(call, miner, signer="hotkey")).success
    found = (await client.subnets.commitments(netuid))[miner.ss58_address]
    assert (found.status, found.value) == ("revealed", "the agent's hash")


async def test_a_commitment_sealed_to_the_future_stays_sealed(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net)
    miner = await _registered(client, net, netuid)
    sealed = bt.timelock.encrypt("not yet", reveal_in="1h")
    content = {"encrypted": sealed.encrypted, "reveal_round": sealed.reveal_round}
    call = bt.calls.Commitments.set_commitment(
        netuid=netuid, info={"fields": [[{"TimelockEncrypted": content}]]}
    )
    assert (await client.submit_call(call, miner, signer="hotkey")).success
    found = (await client.subnets.commitments(netuid))[miner.ss58_address]
    assert (found.status, found.value) == ("sealed", None)


async def test_commitments_use_up_the_space_of_an_epoch(net: LocalNet, client: Any) -> None:
    netuid = _subnet(net, tempo=10_000)
    miner = await _registered(client, net, netuid)
    call = bt.calls.Commitments.set_commitment(netuid=netuid, info={"fields": [[{"Raw1": b"x"}]]})
    outcomes = [await client.submit_call(call, miner, signer="hotkey") for _ in range(32)]
    assert [o.success for o in outcomes] == [True] * 31 + [False]
    assert outcomes[-1].error.name == "SpaceLimitExceeded"
