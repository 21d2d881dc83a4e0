from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from neurons.chain import Chain, ChainRefused, ChainUnavailable, Endpoint
from neurons.localnet import timelock
from neurons.localnet.launch import LocalNet
from neurons.localnet.subnet import SubnetOptions
from neurons.wallets import Wallet, demo_wallet
from neurons.weights import UidWeights, due, stands, what_to_say
from tests.neurons.conftest import BLOCK_TIME_S, NETUID, OPTIONS

NewWallet = Callable[[], Wallet]


async def _validator(chain: Chain, localnet: LocalNet, wallet: Wallet) -> int:
    uid = await chain.register(wallet)
    localnet.set_stake(NETUID, wallet.hotkey.ss58_address, 5000.0)
    return uid


async def test_five_hotkeys_register_and_are_paid_for_and_appear_in_the_metagraph(
    chain: Chain, new_wallet: NewWallet
) -> None:
    wallets = [new_wallet() for _ in range(5)]
    uids = [await chain.register(wallet) for wallet in wallets]
    metagraph = await chain.metagraph()
    assert [metagraph.uids()[w.hotkey.ss58_address] for w in wallets] == uids
    assert [metagraph.neurons[uid].coldkey for uid in uids] == [w.coldkey.ss58_address for w in wallets]
    assert metagraph.burn_uid() == metagraph.uids()[metagraph.owner_hotkey] == 0
    assert await chain.balance(wallets[0].coldkey.ss58_address) == pytest.approx(10.0 - OPTIONS.burn_tao)


async def test_registering_again_costs_nothing_and_gives_the_same_uid(
    chain: Chain, new_wallet: NewWallet
) -> None:
    wallet = new_wallet()
    uid = await chain.register(wallet)
    before = await chain.balance(wallet.coldkey.ss58_address)
    assert await chain.register(wallet) == uid
    assert await chain.balance(wallet.coldkey.ss58_address) == before


async def test_a_coldkey_without_the_price_is_refused(
    chain: Chain, localnet: LocalNet, tmp_path: Path
) -> None:
    poor = demo_wallet("poor", tmp_path, network=localnet.url)
    with pytest.raises(ChainRefused) as refusal:
        await chain.register(poor)
    assert refusal.value.code == "insufficient_balance"
    assert await chain.registered(poor.hotkey.ss58_address) is None


async def test_weights_are_read_back_as_they_were_sent(
    chain: Chain, localnet: LocalNet, new_wallet: NewWallet
) -> None:
    validator = new_wallet()
    uid = await _validator(chain, localnet, validator)
    receipt = await chain.set_weights(validator, {0: 65535, uid: 1, 1: 0})
    assert receipt.confirmed
    assert receipt.sent == receipt.read_back == await chain.weights(uid) == {0: 65535, uid: 1}
    assert receipt.block_hash is not None


async def test_weights_below_the_maximum_keep_their_proportions(
    chain: Chain, localnet: LocalNet, new_wallet: NewWallet
) -> None:
    validator = new_wallet()
    uid = await _validator(chain, localnet, validator)
    receipt = await chain.set_weights(validator, {0: 300, uid: 100})
    assert receipt.confirmed
    assert receipt.read_back == {0: 65535, uid: 21845}


async def test_a_rate_limit_within_the_deadline_is_waited_for(
    chain: Chain, localnet: LocalNet, new_wallet: NewWallet
) -> None:
    validator = new_wallet()
    uid = await _validator(chain, localnet, validator)
    await chain.set_weights(validator, {0: 1})
    first = (await chain.metagraph()).neurons[uid].last_update
    receipt = await chain.set_weights(validator, {uid: 1})
    assert receipt.confirmed
    assert (await chain.metagraph()).neurons[uid].last_update - first >= OPTIONS.weights_rate_limit


async def test_a_rate_limit_beyond_the_deadline_says_which_block_to_wait_for(
    localnet: LocalNet, new_wallet: NewWallet
) -> None:
    netuid, slow = 21, SubnetOptions(weights_rate_limit=10_000)
    owner = new_wallet()
    localnet.create_subnet(
        netuid,
        owner_coldkey=owner.coldkey.ss58_address,
        owner_hotkey=owner.hotkey.ss58_address,
        options=slow,
    )
    validator = new_wallet()
    async with Chain(localnet.url, netuid) as chain:
        uid = await chain.register(validator)
        localnet.set_stake(netuid, validator.hotkey.ss58_address, 5000.0)
        with pytest.raises(ChainRefused, match=r"wait \d+ blocks") as refusal:
            await chain.set_weights(validator, {uid: 1, 0: 1})
        registered_at = (await chain.metagraph()).neurons[uid].registered_at
        assert refusal.value.code == "rate_limited"
        assert refusal.value.retry_at_block == registered_at + slow.weights_rate_limit
        assert await chain.weights(uid) == {}


async def test_weights_of_an_unregistered_hotkey_are_refused(chain: Chain, new_wallet: NewWallet) -> None:
    with pytest.raises(ChainRefused, match="register") as refusal:
        await chain.set_weights(new_wallet(), {0: 1})
    assert refusal.value.code == "not_registered"


async def test_weights_of_a_hotkey_without_stake_are_refused_by_the_chain(
    chain: Chain, new_wallet: NewWallet
) -> None:
    miner = new_wallet()
    await chain.register(miner)
    with pytest.raises(ChainRefused) as refusal:
        await chain.set_weights(miner, {0: 1})
    assert refusal.value.name == "NotEnoughStakeToSetWeights"


async def test_weights_that_cannot_be_set_are_not_sent(chain: Chain, new_wallet: NewWallet) -> None:
    for impossible in ({0: 0}, {}, {0: 70_000}, {0: -1}):
        with pytest.raises(ValueError):
            await chain.set_weights(new_wallet(), impossible)


async def test_a_commitment_is_read_back_with_its_block(chain: Chain, new_wallet: NewWallet) -> None:
    miner = new_wallet()
    hotkey = miner.hotkey.ss58_address
    assert await chain.commitment(hotkey) is None
    with pytest.raises(ChainRefused):
        await chain.commit(miner, b"too early")
    await chain.register(miner)
    digest = hashlib.sha256(b"agent source").digest()
    block = await chain.commit(miner, digest)
    found = await chain.commitment(hotkey)
    assert found is not None
    assert (found.block, found.content) == (block, digest)
    assert await chain.commit(miner, digest) > block


async def test_a_subnet_that_does_not_exist_is_named(localnet: LocalNet) -> None:
    async with Chain(localnet.url, 77) as elsewhere:
        with pytest.raises(ChainRefused, match="no subnet 77"):
            await elsewhere.metagraph()


async def test_the_first_block_at_a_time_does_not_depend_on_when_one_asks(chain: Chain) -> None:
    start = await chain.head()
    await chain.wait_for_block(start.number + 6, deadline_s=30.0)
    target = await chain.block(start.number + 3)
    previous = await chain.block(start.number + 2)
    assert await chain.first_block_at(target.timestamp) == target
    assert await chain.first_block_at(previous.timestamp + timedelta(milliseconds=1)) == target
    assert await chain.first_block_at(target.timestamp + timedelta(days=1)) is None
    genesis = await chain.block(0)
    assert await chain.first_block_at(genesis.timestamp - timedelta(days=1)) == genesis
    assert await chain.block_hash(target.number) == target.hash


async def test_a_block_that_is_not_there_yet_is_refused(chain: Chain) -> None:
    with pytest.raises(ChainRefused) as refusal:
        await chain.block_hash(10**6)
    assert refusal.value.code == "not_found"


async def _nonce(chain: Chain, wallet: Wallet) -> int:
    account = await chain._read(
        "read a nonce",
        lambda client: client.query(("System", "Account"), [wallet.hotkey.ss58_address]),
    )
    return int(account["nonce"])


async def test_a_chain_that_is_not_there_is_unavailable(unused_tcp_port: int) -> None:
    async with Chain(f"ws://127.0.0.1:{unused_tcp_port}", NETUID, deadline_s=5.0) as nowhere:
        with pytest.raises(ChainUnavailable, match="newest block"):
            await nowhere.head()


async def test_a_client_goes_on_when_the_node_was_killed_and_came_back(
    metadata: Path, tmp_path: Path
) -> None:
    net = LocalNet(state=tmp_path / "chain.db", netuid=NETUID, options=OPTIONS, block_time_s=BLOCK_TIME_S)
    with net:
        async with Chain(net.url, NETUID, deadline_s=10.0) as chain:
            validator = demo_wallet("val", tmp_path, network=net.url)
            net.fund(validator.coldkey.ss58_address, 10.0)
            uid = await _validator(chain, net, validator)
            receipt = await chain.set_weights(validator, {0: 2, uid: 1})
            before = await chain.head()
            genesis = net.info()["genesis"]

            net.kill()
            with pytest.raises(ChainUnavailable):
                await chain.head()
            net.start()

            assert net.info()["genesis"] == genesis
            assert await chain.block_hash(before.number) == before.hash
            assert await chain.registered(validator.hotkey.ss58_address) == uid
            assert await chain.weights(uid) == receipt.read_back
            after = await chain.wait_for_block(before.number + 2, deadline_s=30.0)
            assert after.timestamp > before.timestamp
            assert (await chain.set_weights(validator, {uid: 1})).confirmed


async def test_an_endpoint_is_announced_once_and_read_in_the_metagraph(
    chain: Chain, new_wallet: NewWallet
) -> None:
    wallet = new_wallet()
    hotkey, endpoint = wallet.hotkey.ss58_address, Endpoint("203.0.113.7", 8091)
    with pytest.raises(ChainRefused, match="btcli tx burned-register"):
        await chain.serve(wallet, endpoint)
    await chain.register(wallet)
    await chain.serve(wallet, endpoint)
    neuron = (await chain.metagraph()).of(hotkey)
    assert neuron is not None
    assert neuron.endpoint == endpoint
    before = await _nonce(chain, wallet)
    await chain.serve(wallet, endpoint)
    assert await _nonce(chain, wallet) == before


async def test_all_commitments_are_read_at_once(chain: Chain, new_wallet: NewWallet) -> None:
    wallets = [new_wallet() for _ in range(2)]
    for wallet in wallets:
        await chain.register(wallet)
        await chain.commit(wallet, wallet.hotkey.ss58_address.encode())
    found = await chain.commitments()
    for wallet in wallets:
        hotkey = wallet.hotkey.ss58_address
        assert found[hotkey] == await chain.commitment(hotkey)
        assert found[hotkey].content == hotkey.encode()


async def test_a_metagraph_that_is_fresh_enough_is_not_read_again_and_tells_its_age(chain: Chain) -> None:
    first = await chain.metagraph()
    assert await chain.metagraph(fresh_s=60.0) is first
    assert 0 <= first.age_s(asyncio.get_running_loop().time()) < 60
    await chain.wait_for_block(first.block + 1, deadline_s=30.0)
    assert (await chain.metagraph()).block > first.block


async def test_the_next_epoch_is_one_tempo_after_the_last(chain: Chain) -> None:
    epoch = await chain.epoch()
    assert epoch.tempo == OPTIONS.tempo
    assert epoch.next_block == epoch.last_block + OPTIONS.tempo


async def test_a_uid_that_changed_hands_is_not_paid_for_its_former_holder(
    localnet: LocalNet, new_wallet: NewWallet
) -> None:
    netuid, owner = 31, new_wallet()
    full = SubnetOptions(tempo=10, weights_rate_limit=0, max_uids=3, immunity_period=1)
    localnet.create_subnet(
        netuid,
        owner_coldkey=owner.coldkey.ss58_address,
        owner_hotkey=owner.hotkey.ss58_address,
        options=full,
    )
    async with Chain(localnet.url, netuid) as chain:
        validator, old, new = new_wallet(), new_wallet(), new_wallet()
        await chain.register(validator)
        localnet.set_stake(netuid, validator.hotkey.ss58_address, 5000.0)
        uid = await chain.register(old)
        settlement = {"payout": {"units": {old.hotkey.ss58_address: 65535}, "burn": 0}}
        own = validator.hotkey.ss58_address
        before = what_to_say(settlement, await chain.metagraph(), own=own)
        newest = await chain.head()
        # An epoch must have paid the validator for its stake: of two that earn nothing, the older one goes.
        await chain.wait_for_block(newest.number + full.tempo + 2, deadline_s=30.0)
        assert await chain.register(new) == uid
        after = what_to_say(settlement, await chain.metagraph(), own=own)
    assert isinstance(before, UidWeights)
    assert isinstance(after, UidWeights)
    assert before.weights == {uid: 65535}
    assert (after.weights, after.missing) == ({0: 65535}, (old.hotkey.ss58_address,))


async def test_sealed_weights_are_read_back_as_a_pending_commit_and_then_as_weights(
    localnet: LocalNet, new_wallet: NewWallet
) -> None:
    netuid, owner = 32, new_wallet()
    sealing = SubnetOptions(tempo=20, weights_rate_limit=0, commit_reveal=True)
    localnet.create_subnet(
        netuid,
        owner_coldkey=owner.coldkey.ss58_address,
        owner_hotkey=owner.hotkey.ss58_address,
        options=sealing,
    )
    with timelock.sealing_to_the_known_round():
        async with Chain(localnet.url, netuid, version_key=7) as chain:
            validator = new_wallet()
            uid = await chain.register(validator)
            localnet.set_stake(netuid, validator.hotkey.ss58_address, 5000.0)
            receipt = await chain.set_weights(validator, {0: 65535, uid: 3})
            assert (receipt.confirmed, receipt.reveal_round) == (False, timelock.KNOWN_ROUND)
            sealed = await chain.standing(validator.hotkey.ss58_address)
            assert sealed.commit_reveal
            assert stands(sealed, receipt.sent, last_sent=receipt.sent)
            assert due(sealed, receipt.sent, last_sent=receipt.sent).why == "refresh"
            async with asyncio.timeout(60):
                async for _ in chain.heads():
                    standing = await chain.standing(validator.hotkey.ss58_address)
                    if standing.row:
                        break
            assert standing.row == receipt.sent
            assert standing.sealed == ()
            assert standing.last_update == sealed.last_update
