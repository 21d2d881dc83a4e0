"""A model key of the miner's own comes with the submission, sealed; what is none is refused by name."""

from __future__ import annotations

import pytest
from bittensor.keyfiles import Keypair
from pydantic import SecretStr
from sqlalchemy import select

from arena.sealing import Sealed, seal, signed_text
from storage.database import Database
from storage.tables import SealedKey
from tests.arena.api.stage import (
    ANNOUNCED,
    MINER,
    SEALING,
    SOURCE,
    VALIDATOR,
    Signed,
    api,
    asking,
    assert_problem,
)
from tests.arena.stores import Clock

BOX = seal(
    SecretStr("sk"),
    ANNOUNCED.public_key,
    hotkey=MINER.ss58_address,
    source_sha256="0" * 64,
    endpoint="near",
)
GOOD = f"near:{BOX.box}"


async def test_the_key_to_seal_to_is_announced_with_the_validators_signature(
    database: Database, clock: Clock
) -> None:
    async with asking(api(database, clock)) as client:
        found = (await client.get("/v1/sealing-key")).json()
    text, signature = signed_text(found["public_key"]), bytes.fromhex(found["signature"])
    assert found["hotkey"] == VALIDATOR.ss58_address
    assert Keypair(ss58_address=found["hotkey"]).verify(text, signature)
    assert found["endpoints"] == {"near": "https://model.example/v1"}


async def test_a_sealed_key_is_kept_and_a_later_one_takes_its_place(database: Database, clock: Clock) -> None:
    other = seal(
        SecretStr("sk2"),
        ANNOUNCED.public_key,
        hotkey=MINER.ss58_address,
        source_sha256="0" * 64,
        endpoint="near",
    )
    paid = []
    async with asking(api(database, clock)) as client:
        for sealed in ({"X-Sealed-Key": GOOD}, {"X-Sealed-Key": f"near:{other.box}"}, {}):
            answer = await client.post(
                "/v1/submissions",
                content=SOURCE,
                headers={"X-Agent-Name": "a", **sealed},
                auth=Signed(MINER, clock),
            )
            assert answer.is_success, answer.text
            assert BOX.box not in answer.text
            paid.append(answer.json()["paid_by"])
    assert paid == ["miner", "miner", "miner"]
    async with database.session() as session:
        (kept,) = (await session.scalars(select(SealedKey))).all()
    assert (kept.endpoint, kept.box) == ("near", other.box)
    opened = SEALING.open(Sealed(MINER.ss58_address, "0" * 64, kept.endpoint, kept.box))
    assert opened.get_secret_value() == "sk2"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (f"far:{BOX.box}", "a key may go to near, and not to far"),
        ("near", "the endpoint's name, a colon"),
        ("near:!!!", "the endpoint's name, a colon"),
        (f"near:{'A' * 5_000}", "the endpoint's name, a colon"),
        (f"https://evil.example/v1:{BOX.box}", "the endpoint's name, a colon"),
    ],
)
async def test_what_is_no_sealed_key_is_refused_before_anything_is_taken(
    database: Database, clock: Clock, header: str, said: str
) -> None:
    async with asking(api(database, clock)) as client:
        answer = await client.post(
            "/v1/submissions",
            content=SOURCE,
            headers={"X-Agent-Name": "a", "X-Sealed-Key": header},
            auth=Signed(MINER, clock),
        )
        assert_problem(answer, 422, "bad_sealed_key")
        assert said in answer.json()["detail"]
        assert (await client.get("/v1/submissions", auth=Signed(MINER, clock))).json()["items"] == []


async def test_where_the_house_pays_there_is_no_key_to_seal_to(database: Database, clock: Clock) -> None:
    async with asking(api(database, clock, sealing=None)) as client:
        assert_problem(await client.get("/v1/sealing-key"), 404, "not_found")
        answer = await client.post(
            "/v1/submissions",
            content=SOURCE,
            headers={"X-Agent-Name": "a", "X-Sealed-Key": GOOD},
            auth=Signed(MINER, clock),
        )
        assert_problem(answer, 422, "bad_sealed_key")
