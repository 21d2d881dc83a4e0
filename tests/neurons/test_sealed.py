"""The miner's end: a key is sealed for the validator it is meant for, or not sent at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from arena.sealing import Announcement, Sealed
from neurons.host import sealing_key
from neurons.sealed import KeyNotSealed, OwnKey, own_key, sealed_for
from neurons.serving import serving
from neurons.settings import SettingsError, load
from storage.database import Database
from tests.arena.api.stage import ANNOUNCED, OTHER, SEALING, VALIDATOR, api
from tests.arena.stores import Clock

OWN = OwnKey("near", SecretStr("sk-own"))
MEANT = {"hotkey": "hk", "source_sha256": "0" * 64}


async def sent(
    database: Database,
    announced: Announcement | None,
    own: OwnKey = OWN,
    validator: str = VALIDATOR.ss58_address,
) -> str:
    async with serving(api(database, Clock(), sealing=announced), "127.0.0.1", 0) as url:
        return await sealed_for(url, own, validator, **MEANT)


async def test_a_key_is_sealed_for_the_validator_that_announced_it(database: Database) -> None:
    endpoint, _, box = (await sent(database, ANNOUNCED)).partition(":")
    opened = SEALING.open(Sealed(**MEANT, endpoint=endpoint, box=box))
    assert opened.get_secret_value() == "sk-own"


async def test_a_sealing_key_that_the_validator_did_not_sign_gets_nothing(database: Database) -> None:
    with pytest.raises(KeyNotSealed, match="somebody may be in between"):
        await sent(database, replace(ANNOUNCED, signature="00" * 64))
    with pytest.raises(KeyNotSealed, match="somebody may be in between"):
        await sent(database, ANNOUNCED, validator=OTHER.ss58_address)


async def test_who_names_another_endpoint_is_told_which_there_are(database: Database) -> None:
    with pytest.raises(KeyNotSealed, match=r"near \(https://model\.example/v1\).* not to far"):
        await sent(database, ANNOUNCED, OwnKey("far", OWN.key))


async def test_where_the_house_pays_nothing_is_sent(database: Database) -> None:
    with pytest.raises(KeyNotSealed, match="takes no keys of miners"):
        await sent(database, None)


async def test_who_cannot_be_reached_gets_nothing() -> None:
    with pytest.raises(KeyNotSealed, match="cannot be had"):
        await sealed_for("http://127.0.0.1:9", OWN, VALIDATOR.ss58_address, **MEANT)


def test_a_file_that_holds_no_key_is_named() -> None:
    assert own_key("near", " sk-own\n").key.get_secret_value() == "sk-own"
    with pytest.raises(KeyNotSealed, match=r"--key\.file"):
        own_key("near", "two words")


@pytest.mark.parametrize(
    "url",
    [
        "http://model.example/v1",
        "ftp://model.example",
        "model.example/v1",
        "https://user:pw@model.example/v1",
        "https://model.example/v1?to=evil",
    ],
)
def test_a_key_may_only_go_where_nobody_listens(url: str) -> None:
    with pytest.raises(SettingsError, match=r"model\.miner_endpoints\.near"):
        load({"model": {"miner_endpoints": {"near": url}}})


def test_a_worker_needs_the_validators_sealing_key_and_a_validator_makes_it(tmp_path: Path) -> None:
    keys = {"model": {"miner_endpoints": {"near": "https://model.example/v1"}}, "data_dir": tmp_path}
    with pytest.raises(SettingsError, match=r"sealing\.key.*copy the validator's"):
        sealing_key(load(keys), make=False)
    made = sealing_key(load(keys), make=True)
    found = sealing_key(load(keys), make=False)
    assert made is not None
    assert found is not None
    assert made.public_key == found.public_key
    assert sealing_key(load({"data_dir": tmp_path}), make=True) is None
