"""Paying for races: once, with what was refused on record, and beside the races that go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest
from bittensor.keyfiles import Keypair
from sqlalchemy import select, update

from neurons.chain import Chain, ChainRefused
from neurons.localnet.launch import LocalNet
from neurons.payments import _FATE_UNKNOWN, NotSettled, WeightStatus
from neurons.rounds import no_restart_mends, race_and_pay
from neurons.supervision import together
from neurons.validator import Validator
from neurons.wallets import Wallet
from storage.database import Database
from storage.tables import Race, Submission, WeightSetting
from tests.arena.stores import add_episodes
from tests.neurons.conftest import NETUID
from tests.neurons.parts import validator_of

T = TypeVar("T")
STRANGER = Keypair.create_from_uri("//NeverRegistered").ss58_address
BURN_UID = 0
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Owing:
    """A validator with a settled race, who won it, and their uids."""

    validator: Validator
    race_id: UUID
    wallet: Wallet
    uid: int
    winner: int


@pytest.fixture
async def poor(database: Database, chain: Chain, new_wallet: Callable[[], Wallet], tmp_path: Path) -> Owing:
    """Its stake does not allow it to set weights."""
    own, won = new_wallet(), new_wallet()
    uid, winner = await chain.register(own), await chain.register(won)
    race_id = await add_episodes(database)
    await _settle(database, race_id, {won.hotkey.ss58_address: 40_000, STRANGER: 5_535}, burn=20_000)
    return Owing(validator_of(database, chain, own, tmp_path), race_id, own, uid, winner)


@pytest.fixture
def owing(poor: Owing, localnet: LocalNet) -> Owing:
    localnet.set_stake(NETUID, poor.validator.hotkey, 5000.0)
    return poor


async def _settle(database: Database, race_id: UUID, units: dict[str, int], burn: int) -> None:
    async with database.session() as session:
        race = await session.get_one(Race, race_id)
        race.state = "settled"
        race.settlement = {"payout": {"units": units, "burn": burn}}
        await session.execute(update(Submission).values(state="refused"))  # so that nobody enters races


async def _settings(database: Database) -> list[WeightSetting]:
    async with database.session() as session:
        return list(await session.scalars(select(WeightSetting).order_by(WeightSetting.set_at)))


async def test_weights_stand_on_the_chain_and_who_left_is_burned(
    owing: Owing, chain: Chain, database: Database
) -> None:
    receipt = await owing.validator.pay(owing.race_id)
    on_chain = await chain.weights(owing.uid)
    assert receipt.confirmed
    assert receipt.sent == receipt.read_back == on_chain
    assert on_chain == {owing.winner: 65535, BURN_UID: round(65535 * 25_535 / 40_000)}
    [kept] = await _settings(database)
    assert (kept.confirmed, kept.error, kept.netuid) == (True, None, NETUID)
    assert kept.read_back == {str(uid): weight for uid, weight in on_chain.items()}


async def test_what_was_confirmed_is_not_sent_again(
    owing: Owing, chain: Chain, database: Database, tmp_path: Path
) -> None:
    first = await owing.validator.pay(owing.race_id)
    updated = (await chain.metagraph()).neurons[owing.uid].last_update
    assert await owing.validator.pay(owing.race_id) == first
    assert (await chain.metagraph()).neurons[owing.uid].last_update == updated
    assert len(await _settings(database)) == 1


async def test_weights_that_something_else_replaced_are_set_again(
    owing: Owing, chain: Chain, database: Database
) -> None:
    await owing.validator.pay(owing.race_id)
    await chain.set_weights(owing.wallet, {BURN_UID: 1})
    assert (await owing.validator.pay(owing.race_id)).confirmed
    assert owing.winner in await chain.weights(owing.uid)
    assert [s.confirmed for s in await _settings(database)] == [True, True]


async def test_a_refusal_is_kept_with_its_reason_and_raised(
    poor: Owing, localnet: LocalNet, database: Database
) -> None:
    with pytest.raises(ChainRefused) as refusal:
        await poor.validator.pay(poor.race_id)
    [kept] = await _settings(database)
    assert (kept.confirmed, kept.error) == (False, str(refusal.value))
    localnet.set_stake(NETUID, poor.validator.hotkey, 5000.0)
    assert (await poor.validator.pay(poor.race_id)).confirmed
    assert [s.confirmed for s in await _settings(database)] == [False, True]


async def test_weights_that_reached_the_chain_before_a_crash_are_not_sent_again(
    owing: Owing, chain: Chain, database: Database
) -> None:
    await owing.validator.pay(owing.race_id)
    async with database.session() as session:  # as a process leaves it that was killed while it waited
        await session.execute(update(WeightSetting).values(error=_FATE_UNKNOWN, confirmed=False))
    updated = (await chain.standing(owing.validator.hotkey)).last_update
    assert (await owing.validator.pay(owing.race_id)).confirmed
    assert (await chain.standing(owing.validator.hotkey)).last_update == updated
    assert len(await _settings(database)) == 1


async def test_weights_that_never_reached_the_chain_are_sent_again(
    owing: Owing, chain: Chain, database: Database
) -> None:
    sent = {str(owing.winner): 65535, "0": 7}
    async with database.session() as session:
        lost = WeightSetting(race_id=owing.race_id, netuid=NETUID, sent=sent, confirmed=False)
        lost.error = _FATE_UNKNOWN
        session.add(lost)
    assert (await owing.validator.pay(owing.race_id)).confirmed
    assert owing.winner in await chain.weights(owing.uid)


async def test_a_race_that_pays_nobody_leaves_the_weights_on_the_chain_as_they_are(
    owing: Owing, chain: Chain, database: Database
) -> None:
    await owing.validator.pay(owing.race_id)
    before = await chain.weights(owing.uid)
    await _settle(database, owing.race_id, {}, burn=0)
    with pytest.raises(ChainRefused, match="kept as they are") as refusal:
        await owing.validator.pay(owing.race_id)
    assert refusal.value.code == "nothing_to_say"
    assert await chain.weights(owing.uid) == before


async def test_a_race_that_has_not_settled_has_no_weights(
    database: Database, chain: Chain, new_wallet: Callable[[], Wallet], tmp_path: Path
) -> None:
    race_id = await add_episodes(database)
    with pytest.raises(NotSettled):
        await validator_of(database, chain, new_wallet(), tmp_path).pay(race_id)


async def test_races_go_on_while_weights_are_refused_and_one_that_nobody_entered_is_void(
    poor: Owing, database: Database
) -> None:
    every = timedelta(seconds=1)
    working = asyncio.create_task(together(race_and_pay(poor.validator, "s", "s", every)))
    try:
        async with asyncio.timeout(DEADLINE_S):
            while len(races := await _void(database)) < 2:
                assert not working.done()
                await asyncio.sleep(0.05)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    assert {race.void_reason for race in races} == {"qualifying: nobody entered"}
    boundaries = [race.boundary_at for race in races if race.boundary_at is not None]
    assert boundaries[1] - boundaries[0] >= every
    assert (await _settings(database))[0].error is not None


async def test_a_race_that_settled_before_a_restart_is_paid_after_it(owing: Owing, chain: Chain) -> None:
    async with _keeping(owing):
        await _until(lambda: chain.weights(owing.uid), lambda row: owing.winner in row)
        await _until(_status(owing), lambda status: status is not None and status.stand)
    assert owing.validator.payments.last_error is None


async def test_a_hotkey_that_lost_its_uid_is_paid_no_more_and_whoever_holds_it_now_is_not_paid_instead(
    owing: Owing, chain: Chain, database: Database
) -> None:
    """The uid of a hotkey can change hands between a race and its payment; here the winner is a stranger."""
    await _settle(database, owing.race_id, {STRANGER: 40_000}, burn=25_535)
    receipt = await owing.validator.pay(owing.race_id)
    assert receipt.confirmed
    assert await chain.weights(owing.uid) == {BURN_UID: 65535}


async def test_what_stands_is_told_with_the_block_of_the_next_setting(owing: Owing, chain: Chain) -> None:
    async with _keeping(owing):
        await _until(_status(owing), lambda status: status is not None and status.stand)
    status = owing.validator.payments.status
    assert status is not None
    assert not status.overdue
    assert status.next_setting_block > status.block
    assert status.blocks_since_update < status.activity_cutoff


async def test_a_validator_without_a_uid_ends_and_says_how_to_register(
    database: Database, chain: Chain, new_wallet: Callable[[], Wallet], tmp_path: Path, owing: Owing
) -> None:
    stranger = validator_of(database, chain, new_wallet(), tmp_path)
    await _settle(database, owing.race_id, {owing.validator.hotkey: 40_000}, burn=25_535)
    with pytest.raises(ChainRefused, match="btcli tx burned-register"):
        async with asyncio.timeout(DEADLINE_S):
            await together(
                race_and_pay(stranger, "s", "s", timedelta(days=1)),
                fatal=no_restart_mends,
            )


@asynccontextmanager
async def _keeping(owing: Owing) -> AsyncIterator[None]:
    working = asyncio.create_task(together(race_and_pay(owing.validator, "s", "s", timedelta(days=1))))
    try:
        yield
        assert not working.done(), working.result()
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


def _status(owing: Owing) -> Callable[[], Awaitable[WeightStatus | None]]:
    async def status() -> WeightStatus | None:
        return owing.validator.payments.status

    return status


async def _until(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds(await look()):  # noqa: ASYNC110  # what it waits for is on the chain
            await asyncio.sleep(0.05)


async def _void(database: Database) -> list[Race]:
    async with database.session() as session:
        return list(await session.scalars(select(Race).where(Race.state == "void").order_by(Race.number)))


async def test_what_breaks_while_the_validator_works_escapes_as_it_is(poor: Owing) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with poor.validator.working():
            raise KeyError("mine")
