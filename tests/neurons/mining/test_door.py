"""A node's source is for validators with a permit, once a request, and each other caller is told why not."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import bittensor as bt
import httpx
import pytest
from bittensor.keyfiles import Keypair

from neurons.chain_types import ChainUnavailable
from neurons.mining.door import NAME_HEADER, SOURCE_PATH, Agent, Shelf, create_door
from tests.arena.api.stage import asking, assert_problem

NODE = Keypair.create_from_uri("//Bob")
VALIDATOR = Keypair.create_from_uri("//Alice")
STRANGER = Keypair.create_from_uri("//Dave")
AGENT = Agent(b"def solve():\n    pass\n", "ab" * 32, "shopper")


@dataclass
class Door:
    """A node's door, with what the chain says of permits, and a clock for its limits."""

    client: httpx.AsyncClient
    shelf: Shelf
    permits: set[str] = field(default_factory=lambda: {VALIDATOR.ss58_address})
    down: bool = False
    served: list[str] = field(default_factory=list)
    seconds: float = 0.0

    async def permitted(self, hotkey: str) -> bool:
        if self.down:
            raise ChainUnavailable("no route")
        return hotkey in self.permits

    async def ask(
        self, keypair: Keypair | None, *, receiver: Keypair = NODE, age_s: float = 0.0, body: bytes = b""
    ) -> httpx.Response:
        headers = {} if keypair is None else signed(keypair, receiver, age_s, body)
        return await self.client.request("GET", SOURCE_PATH, headers=headers, content=body)


def signed(keypair: Keypair, receiver: Keypair, age_s: float, body: bytes = b"") -> dict[str, str]:
    return dict(
        bt.http_auth.sign(
            keypair,
            method="GET",
            path=SOURCE_PATH,
            body=body,
            receiver_ss58=receiver.ss58_address,
            nonce_ns=time.time_ns() - int(age_s * 1e9),
        )
    )


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    shelf = Shelf(AGENT)
    app = create_door(
        shelf,
        hotkey=NODE.ss58_address,
        permitted=lambda hotkey: here.permitted(hotkey),
        served=lambda hotkey: here.served.append(hotkey),
        tick=lambda: here.seconds,
    )
    async with asking(app) as client:
        here = Door(client, shelf)
        yield here


async def test_a_validator_with_a_permit_gets_the_source_and_its_name(door: Door) -> None:
    answer = await door.ask(VALIDATOR)
    assert (answer.status_code, answer.content) == (200, AGENT.source)
    assert answer.headers[NAME_HEADER] == AGENT.name
    assert door.served == [VALIDATOR.ss58_address]


async def test_nobody_gets_it_unsigned(door: Door) -> None:
    assert_problem(await door.ask(None), 401, "bad_signature")


async def test_a_hotkey_without_a_permit_is_refused(door: Door) -> None:
    assert_problem(await door.ask(STRANGER), 403, "not_permitted")
    assert door.served == []


async def test_a_request_for_another_node_is_refused(door: Door) -> None:
    assert_problem(await door.ask(VALIDATOR, receiver=STRANGER), 401, "bad_signature")


async def test_an_old_request_is_refused(door: Door) -> None:
    assert_problem(await door.ask(VALIDATOR, age_s=11), 401, "bad_signature")


async def test_a_request_is_good_once(door: Door) -> None:
    headers = signed(VALIDATOR, NODE, 0)
    first = await door.client.get(SOURCE_PATH, headers=headers)
    again = await door.client.get(SOURCE_PATH, headers=headers)
    assert first.status_code == 200
    assert_problem(again, 401, "replayed")


async def test_another_scheme_is_refused_before_anything_is_verified(door: Door) -> None:
    headers = signed(VALIDATOR, NODE, 0) | {bt.http_auth.HEADER_CRYPTO: "ed25519"}
    assert_problem(await door.client.get(SOURCE_PATH, headers=headers), 401, "bad_signature")


async def test_a_body_is_not_read(door: Door) -> None:
    assert_problem(await door.ask(VALIDATOR, body=b"x" * 10), 413, "too_large")


async def test_without_a_commitment_there_is_nothing_to_serve(door: Door) -> None:
    door.shelf.agent = None
    assert_problem(await door.ask(VALIDATOR), 404, "not_found")


async def test_while_the_chain_is_down_nobody_is_refused_and_nobody_is_served(door: Door) -> None:
    door.down = True
    assert_problem(await door.ask(VALIDATOR), 503, "unavailable")
    assert door.served == []


async def test_one_hotkey_cannot_ask_without_end(door: Door) -> None:
    door.seconds = 1.0
    codes = [(await door.ask(VALIDATOR)).status_code for _ in range(16)]
    assert codes == [200] * 15 + [429]
    door.seconds = 10.0
    assert (await door.ask(VALIDATOR)).status_code == 200


async def test_one_address_cannot_ask_without_end_whoever_it_says_it_is(door: Door) -> None:
    codes = [(await door.ask(None)).status_code for _ in range(61)]
    assert codes == [401] * 60 + [429]


async def test_a_node_says_whose_it_is(door: Door) -> None:
    answer = await door.client.get("/healthz")
    assert answer.json() == {"status": "ok", "hotkey": NODE.ss58_address}
