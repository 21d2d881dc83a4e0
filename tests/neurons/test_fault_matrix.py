"""Every fault at every call of the chain, and how it must end: retried, reported, or with the program's exit.

Retried: the call succeeds, and what it submits is on the chain once. Reported: one of our errors, which says
what to do. Exited: an error that ends the program, for its supervisor to start it anew or a person to act.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from neurons.chain import (
    Chain,
    ChainRefused,
    ChainStalled,
    ChainUnavailable,
    ChainUnreadable,
    Endpoint,
)
from neurons.localnet.faults import Fault
from neurons.localnet.launch import LocalNet
from neurons.localnet.subnet import SubnetOptions
from neurons.rounds import no_restart_mends
from neurons.user_errors import explanation, status
from neurons.wallets import Wallet, demo_wallet
from neurons.watching import HeadWatch

NETUID = 2
BLOCK_TIME_S = 0.05
OPTIONS = SubnetOptions(tempo=10, weights_rate_limit=0, serving_rate_limit=0)
DEADLINE_S = 4.0
HOPELESS_S = 0.6
SLOW_S = 0.2
SUBMISSION = "author_submit*"

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Setting:
    """A node that takes faults, a client of it, and a validator with a permit on its subnet."""

    net: LocalNet
    chain: Chain
    wallet: Wallet
    uid: int
    folder: Path

    @property
    def hotkey(self) -> str:
        return self.wallet.hotkey.ss58_address

    async def nonce(self, address: str) -> int:
        account = await self.chain._read("nonce", lambda c: c.query(("System", "Account"), [address]))
        return int(account["nonce"])

    def funded(self) -> Wallet:
        wallet = demo_wallet(f"m{next(_numbers)}", self.folder, network=self.net.url)
        self.net.fund(wallet.coldkey.ss58_address, 10.0)
        return wallet


@pytest.fixture(scope="module")
def net(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNet]:
    log = tmp_path_factory.mktemp("faults") / "node.log"
    with LocalNet(
        netuid=NETUID, options=OPTIONS, block_time_s=BLOCK_TIME_S, finality_lag=2, faults=True, log=log
    ) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wallets")


@pytest.fixture(scope="module")
def validator(net: LocalNet, folder: Path) -> tuple[Wallet, int]:
    wallet = demo_wallet("validator", folder, network=net.url)
    net.fund(wallet.coldkey.ss58_address, 10.0)

    async def register() -> int:
        async with Chain(net.url, NETUID) as chain:
            return await chain.register(wallet)

    uid = asyncio.run(register())
    net.set_stake(NETUID, wallet.hotkey.ss58_address, 5000.0)
    return wallet, uid


@pytest.fixture
async def setting(net: LocalNet, validator: tuple[Wallet, int], folder: Path) -> AsyncIterator[Setting]:
    """The client is connected already: faults meet calls, not its first words."""
    async with Chain(net.url, NETUID, deadline_s=DEADLINE_S) as chain:
        await chain.spec_version()
        yield Setting(net, chain, *validator, folder)
        net.clear_faults()


Call = Callable[[Setting], Awaitable[Any]]


async def _first_block(setting: Setting) -> object:
    head = await setting.chain.head()
    return await setting.chain.first_block_at(head.timestamp - timedelta(milliseconds=100))


async def _next_head(setting: Setting) -> int:
    async with aclosing(setting.chain._link.heads(silence_s=0.5)) as heads, asyncio.timeout(20):
        return await anext(heads)


READS: dict[str, Call] = {
    "head": lambda s: s.chain.head(),
    "block": lambda s: s.chain.block(1),
    "first_block_at": _first_block,
    "heads": _next_head,
    "wait_for_block": lambda s: s.chain.wait_for_block(2, deadline_s=20),
    "epoch": lambda s: s.chain.epoch(),
    "registered": lambda s: s.chain.registered(s.hotkey),
    "balance": lambda s: s.chain.balance(s.wallet.coldkey.ss58_address),
    "metagraph": lambda s: s.chain.metagraph(),
    "commitment": lambda s: s.chain.commitment(s.hotkey),
    "commitments": lambda s: s.chain.commitments(),
    "weights": lambda s: s.chain.weights(s.uid),
    "standing": lambda s: s.chain.standing(s.hotkey),
    "newest_version_key": lambda s: s.chain.newest_version_key(),
}


@dataclass(frozen=True)
class Written:
    """What a submission left: who signed it, and whether it stands."""

    signer: str
    stands: bool


async def _set_weights(setting: Setting, deadline_s: float = 30.0) -> Written:
    weights = {0: 65535, setting.uid: next(_numbers)}
    receipt = await setting.chain.set_weights(setting.wallet, weights, deadline_s=deadline_s)
    return Written(setting.hotkey, receipt.confirmed and await setting.chain.weights(setting.uid) == weights)


async def _commit(setting: Setting, deadline_s: float = 30.0) -> Written:
    content = b"%d" % next(_numbers)
    block = await setting.chain.commit(setting.wallet, content, deadline_s=deadline_s)
    found = await setting.chain.commitment(setting.hotkey)
    return Written(setting.hotkey, found is not None and (found.block, found.content) == (block, content))


async def _serve(setting: Setting, deadline_s: float = 30.0) -> Written:
    endpoint = Endpoint("203.0.113.7", 1024 + next(_numbers))
    await setting.chain.serve(setting.wallet, endpoint, deadline_s=deadline_s)
    neuron = (await setting.chain.metagraph()).of(setting.hotkey)
    return Written(setting.hotkey, neuron is not None and neuron.endpoint == endpoint)


async def _register(setting: Setting, deadline_s: float = 30.0) -> Written:
    wallet = await asyncio.to_thread(setting.funded)
    uid = await setting.chain.register(wallet, deadline_s=deadline_s)
    found = await setting.chain.registered(wallet.hotkey.ss58_address)
    return Written(wallet.coldkey.ss58_address, found == uid)


WRITES: dict[str, Callable[..., Awaitable[Written]]] = {
    "set_weights": _set_weights,
    "commit": _commit,
    "serve": _serve,
    "register": _register,
}


def inject(setting: Setting, kind: str, method: str = "*", **more: Any) -> None:
    seconds = {"seconds": SLOW_S} if kind == "slow" else {}
    setting.net.fault(Fault(kind, method=method, **seconds, **more))


def each(calls: Iterable[str], *often: str) -> list[Any]:
    """All calls; those that are not named run with the slow tests."""
    return [pytest.param(call, marks=() if call in often else pytest.mark.slow) for call in calls]


@pytest.mark.parametrize("fault", ["drop", "lose", "hang", "slow", "refuse"])
@pytest.mark.parametrize("call", each(READS, "heads", "standing"))
async def test_a_read_is_retried(setting: Setting, call: str, fault: str) -> None:
    inject(setting, fault)
    assert await READS[call](setting) is not None or call == "commitment"
    assert setting.net.info()["faults"] == []


@pytest.mark.parametrize("fault", ["drop", "lose", "hang", "slow", "refuse"])
@pytest.mark.parametrize("call", each(WRITES, "set_weights"))
async def test_a_submission_is_retried_and_lands_once(setting: Setting, call: str, fault: str) -> None:
    before = await setting.nonce(setting.hotkey)
    inject(setting, fault, SUBMISSION)
    deadline_s = 8.0 if fault == "hang" else 30.0  # half of it is spent on the answer that never comes
    written = await WRITES[call](setting, deadline_s)
    assert written.stands
    assert setting.net.info()["faults"] == []
    sent = await setting.nonce(written.signer)
    assert sent == (before + 1 if written.signer == setting.hotkey else 1)


@pytest.mark.parametrize("fault", ["drop", "hang", "refuse"])
@pytest.mark.parametrize("call", each(("head", "registered", "metagraph", "standing"), "metagraph"))
async def test_a_read_that_cannot_succeed_is_reported_in_time(
    net: LocalNet, validator: tuple[Wallet, int], folder: Path, call: str, fault: str
) -> None:
    async with Chain(net.url, NETUID, deadline_s=HOPELESS_S) as chain:
        await chain.spec_version()
        setting = Setting(net, chain, *validator, folder)
        inject(setting, fault, times=0)
        try:
            with pytest.raises(ChainUnavailable) as report:
                await READS[call](setting)
        finally:
            net.clear_faults()
    told = explanation(report.value)
    assert told is not None
    assert "try again later" in told
    assert status(report.value) == 2


@pytest.mark.parametrize("fault", ["drop", "hang", "refuse"])
@pytest.mark.parametrize("call", each(WRITES, "set_weights"))
async def test_a_submission_that_cannot_succeed_is_reported_and_leaves_nothing(
    setting: Setting, call: str, fault: str
) -> None:
    inject(setting, fault, SUBMISSION, times=0)
    before = await setting.nonce(setting.hotkey)
    with pytest.raises(ChainUnavailable):
        await WRITES[call](setting, HOPELESS_S)
    assert await setting.nonce(setting.hotkey) == before


@pytest.mark.parametrize("call", each(WRITES, "set_weights"))
async def test_a_submission_that_the_pool_rejects_is_reported_and_leaves_nothing(
    setting: Setting, call: str
) -> None:
    before = await setting.nonce(setting.hotkey)
    inject(setting, "reject", SUBMISSION)
    with pytest.raises(ChainRefused, match="rejected") as report:
        await WRITES[call](setting)
    assert report.value.remediation
    assert await setting.nonce(setting.hotkey) == before


REFUSALS = [
    ("set_weights", "SubtensorModule.NeuronNoValidatorPermit", "not_authorized"),
    ("set_weights", "SubtensorModule.NotEnoughStakeToSetWeights", "insufficient_balance"),
    ("set_weights", "SubtensorModule.HotKeyNotRegisteredInSubNet", "not_registered"),
    ("set_weights", "SubtensorModule.IncorrectWeightVersionKey", "invalid_argument"),
    ("commit", "Commitments.AccountNotAllowedCommit", "not_authorized"),
    ("serve", "SubtensorModule.ServingRateLimitExceeded", "rate_limited"),
    ("serve", "SubtensorModule.InvalidIpAddress", "invalid_argument"),
    ("register", "SubtensorModule.NotEnoughBalanceToStake", "insufficient_balance"),
    ("register", "SubtensorModule.SubNetRegistrationDisabled", "disabled"),
]


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [*REFUSALS[:3], *(pytest.param(*refusal, marks=pytest.mark.slow) for refusal in REFUSALS[3:])],
)
async def test_a_refusal_is_reported_by_its_name_and_not_repeated(
    setting: Setting, call: str, error: str, code: str
) -> None:
    inject(setting, "fail", error=error)
    with pytest.raises(ChainRefused) as report:
        await WRITES[call](setting)
    assert (report.value.code, report.value.name) == (code, error.partition(".")[2])
    assert report.value.remediation
    assert setting.net.info()["faults"] == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("set_weights", "SubtensorModule.SettingWeightsTooFast"),
        ("commit", "Commitments.SpaceLimitExceeded"),
    ],
)
async def test_a_refusal_that_passes_with_the_blocks_is_waited_for(
    setting: Setting, call: str, error: str
) -> None:
    inject(setting, "fail", error=error)
    assert (await WRITES[call](setting)).stands


@pytest.mark.parametrize("call", each((*READS, *WRITES), "standing", "heads", "set_weights"))
async def test_a_block_that_is_replaced_disturbs_no_call(setting: Setting, call: str) -> None:
    await setting.chain.head()
    setting.net.reorg()
    if call in READS:
        assert await READS[call](setting) is not None or call == "commitment"
    else:
        assert (await WRITES[call](setting)).stands


async def test_an_entry_that_is_absent_is_an_answer_and_reported_as_one(setting: Setting) -> None:
    inject(setting, "missing", entry="SubtensorModule.Uids", times=0)
    assert await setting.chain.registered(setting.hotkey) is None
    for call in (READS["standing"], WRITES["set_weights"]):
        with pytest.raises(ChainRefused, match="register it") as report:
            await call(setting)
        assert no_restart_mends(report.value)


async def test_a_runtime_upgrade_is_noticed_and_survived_and_one_that_the_sdk_does_not_know_is_reported(
    metadata: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalNet(netuid=NETUID, options=OPTIONS, block_time_s=BLOCK_TIME_S, faults=True) as own:
        async with Chain(own.url, NETUID, deadline_s=10.0) as chain:
            wallet = demo_wallet("v", tmp_path, network=own.url)
            own.fund(wallet.coldkey.ss58_address, 10.0)
            uid = await chain.register(wallet)
            own.set_stake(NETUID, wallet.hotkey.ss58_address, 5000.0)
            old = await chain.spec_version()
            own.upgrade(old + 1)
            await chain.close()  # a connection that stays notices within a block of the real chain
            with caplog.at_level(logging.WARNING):
                assert await chain.spec_version() == old + 1
            assert f"from spec {old} to {old + 1}" in caplog.text
            assert (await chain.set_weights(wallet, {0: 1, uid: 2})).confirmed
            own.upgrade(old + 2, without=["SubtensorModule.SubnetEpochConsensus"])
            await chain.close()
            assert await chain.spec_version() == old + 2
            with pytest.raises(ChainUnreadable, match="upgrade it"):
                await chain.set_weights(wallet, {0: 2, uid: 1})
            assert await chain.weights(uid) == {0: 32768, uid: 65535}


@pytest.mark.slow
async def test_a_runtime_upgrade_is_noticed_by_a_connection_that_stays(
    metadata: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalNet(netuid=NETUID, options=OPTIONS, block_time_s=BLOCK_TIME_S, faults=True) as own:
        async with Chain(own.url, NETUID, deadline_s=10.0) as chain:
            old = await chain.spec_version()
            own.upgrade(old + 1)
            with caplog.at_level(logging.WARNING):
                async with asyncio.timeout(60), aclosing(chain._link.heads(silence_s=10.0)) as heads:
                    async for _ in heads:
                        if await chain.spec_version() != old:
                            break
    assert f"from spec {old} to {old + 1}" in caplog.text


async def test_blocks_that_stop_end_the_program_for_its_supervisor(metadata: Path) -> None:
    with LocalNet(netuid=NETUID, block_time_s=0.0) as still:
        async with Chain(still.url, NETUID) as chain:
            with pytest.raises(ChainStalled, match=r"--subtensor\.chain_endpoint") as end:
                await HeadWatch(chain, stalled_after_s=0.5).run()
    assert no_restart_mends(end.value)
    assert status(end.value) == 75


async def test_a_node_that_hangs_ends_the_program_for_its_supervisor(setting: Setting) -> None:
    watch = HeadWatch(setting.chain, stalled_after_s=1.0)
    inject(setting, "hang", times=0)
    with pytest.raises(ChainStalled) as end:
        await watch.run()
    assert status(end.value) == 75


@pytest.mark.parametrize("fault", ["drop", "lose", "refuse"])
async def test_the_watch_over_blocks_goes_on_when_its_subscription_breaks(
    setting: Setting, fault: str
) -> None:
    watch = HeadWatch(setting.chain, stalled_after_s=20.0)
    inject(setting, fault, "chain_subscribe*", times=2)
    running = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(20):
            while watch.newest is None:
                assert not running.done()
                await asyncio.sleep(0.02)
    finally:
        running.cancel()
    assert setting.net.info()["faults"] == []
