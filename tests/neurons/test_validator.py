"""Paying for races: once, with what was refused on record, and beside the races that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from bittensor.keyfiles import Keypair
from sqlalchemy import select, update

from neurons.chain import Chain, ChainRefused
from neurons.localnet.launch import LocalNet
from neurons.rounds import race_and_pay
from neurons.validator import NotSettled, Validator
from neurons.wallets import Wallet
from storage.database import Database
from storage.tables import Race, Submission, WeightSetting
from tests.arena.stores import add_episodes
from tests.neurons.conftest import NETUID
from tests.neurons.parts import validator_of

STRANGER = Keypair.create_from_uri("//NeverRegistered").ss58_address
BURN_UID = 0
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Owing:
    """A validator with a settled race, who won it, and their uids."""

    validator: Validator
    race_id: UUID
    uid: int
    winner: int


@pytest.fixture
async def poor(database: Database, chain: Chain, new_wallet: Callable[[], Wallet], tmp_path: Path) -> Owing:
    """Its stake does not allow it to set weights."""
    own, won = new_wallet(), new_wallet()
    uid, winner = await chain.register(own), await chain.register(won)
    race_id = await add_episodes(database)
    await _settle(database, race_id, {won.hotkey.ss58_address: 40_000, STRANGER: 5_535}, burn=20_000)
    return Owing(validator_of(database, chain, own, tmp_path), race_id, uid, winner)


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
    assert await owing.validator.pay(owing.race_id, fresh_for=timedelta(hours=8)) == first
    assert (await chain.metagraph()).neurons[owing.uid].last_update == updated
    assert len(await _settings(database)) == 1


async def test_weights_that_are_no_longer_fresh_are_set_again(
    owing: Owing, chain: Chain, database: Database
) -> None:
    await owing.validator.pay(owing.race_id)
    updated = (await chain.metagraph()).neurons[owing.uid].last_update
    await owing.validator.pay(owing.race_id, fresh_for=timedelta(0))
    assert (await chain.metagraph()).neurons[owing.uid].last_update > updated
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


async def test_weights_that_were_sent_and_not_seen_are_looked_for_before_they_are_sent_again(
    owing: Owing, chain: Chain, database: Database
) -> None:
    sent = {str(owing.winner): 65535, "0": 7}
    async with database.session() as session:
        session.add(WeightSetting(race_id=owing.race_id, netuid=NETUID, sent=sent, confirmed=False))
    assert not (await owing.validator.pay(owing.race_id)).confirmed
    assert await chain.weights(owing.uid) == {}
    own = owing.validator._parts.wallet
    await chain.set_weights(own, {owing.winner: 65535, 0: 7})
    assert (await owing.validator.pay(owing.race_id)).confirmed
    [kept] = await _settings(database)
    assert kept.confirmed


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
    working = asyncio.create_task(race_and_pay(poor.validator, "s", "s", every))
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
    working = asyncio.create_task(race_and_pay(owing.validator, "s", "s", timedelta(days=1)))
    try:
        async with asyncio.timeout(DEADLINE_S):
            while owing.winner not in await chain.weights(owing.uid):
                assert not working.done()
                await asyncio.sleep(0.05)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _void(database: Database) -> list[Race]:
    async with database.session() as session:
        return list(await session.scalars(select(Race).where(Race.state == "void").order_by(Race.number)))


async def test_what_breaks_while_the_validator_works_escapes_as_it_is(poor: Owing) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with poor.validator.working():
            raise KeyError("mine")
