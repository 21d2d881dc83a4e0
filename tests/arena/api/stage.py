"""A validator's API to ask: hotkeys that sign, what the chain says of them, and clients."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import bittensor as bt
import httpx
from bittensor.keyfiles import Keypair
from fastapi import FastAPI, routing
from nacl.public import PrivateKey

from arena.api.app import create_app
from arena.rules import Rules
from arena.sealing import Announcement, SealingKey, signed_text
from storage.database import Database
from tests.arena.screeners import screener
from tests.arena.stores import Clock

VALIDATOR = Keypair.create_from_uri("//Alice")
MINER = Keypair.create_from_uri("//Bob")
OTHER = Keypair.create_from_uri("//Charlie")
STRANGER = Keypair.create_from_uri("//Dave")
OPERATOR = Keypair.create_from_uri("//Eve")
SOURCE = b"def agent(problem):\n    return 'secret strategy'\n"
RULES = Rules.load({"require_commitment": False})
SEALING = SealingKey(PrivateKey.generate())
ANNOUNCED = Announcement(
    SEALING.public_key,
    VALIDATOR.sign(signed_text(SEALING.public_key)).hex(),
    {"near": "https://model.example/v1"},
)


class Signed(httpx.Auth):
    """Signs each request as a miner does, at the time of the test's clock."""

    requires_request_body = True

    def __init__(self, keypair: Keypair, clock: Clock, *, receiver: str | None = None) -> None:
        self._keypair = keypair
        self._clock = clock
        self._receiver = receiver or VALIDATOR.ss58_address

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        self._clock.move(milliseconds=1)
        headers = bt.http_auth.sign(
            self._keypair,
            method=request.method,
            path=request.url.raw_path.decode(),
            body=request.content,
            receiver_ss58=self._receiver,
            nonce_ns=int(self._clock().timestamp() * 1000) * 1_000_000,
        )
        request.headers.update(headers)
        yield request


class Subnet:
    """What the chain says of hotkeys."""

    def __init__(self) -> None:
        self.hotkeys = {MINER.ss58_address, OTHER.ss58_address}
        self.committed: dict[str, tuple[int, str]] = {}
        self.down = False

    async def registered(self, hotkey: str) -> bool:
        if self.down:
            raise ConnectionError("no route to the node")
        return hotkey in self.hotkeys

    async def commitment(self, hotkey: str) -> tuple[int, str] | None:
        return self.committed.get(hotkey)

    def commit(self, keypair: Keypair, source: bytes, block: int) -> None:
        self.committed[keypair.ss58_address] = (block, hashlib.sha256(source).hexdigest())


def api(
    database: Database,
    clock: Callable[[], Any],
    *,
    subnet: Subnet | None = None,
    rules: Rules = RULES,
    tick: Callable[[], float] = lambda: 0.0,
    sealing: Announcement | None = ANNOUNCED,
) -> FastAPI:
    """The application, of which Eve is the operator. Its rate limits see the time of `tick`."""
    chain = subnet or Subnet()
    return create_app(
        database,
        rules,
        validator_hotkey=VALIDATOR.ss58_address,
        registered=chain.registered,
        commitment=chain.commitment,
        screener=screener(rules),
        clock=clock,
        operators={OPERATOR.ss58_address},
        tick=tick,
        sealing=sealing,
    )


@asynccontextmanager
async def asking(app: FastAPI, address: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    """A client at `address`."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=(address, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://validator") as client:
        yield client


def assert_problem(response: httpx.Response, status: int, code: str) -> None:
    """That the answer is this error, as a problem document."""
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.json()["status"] == status


async def listed(client: httpx.AsyncClient, address: str, auth: httpx.Auth | None = None) -> list[Any]:
    """All of a list, in pages of two."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(100):
        params = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
        answer = await client.get(httpx.URL(address).copy_merge_params(params), auth=auth)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found
    raise AssertionError("the list does not end")


def endpoints(app: FastAPI) -> set[tuple[str, str]]:
    """Method and path of everything that the application answers, documented or not."""
    # Newer versions of FastAPI keep the routes of an included router apart.
    routes: Iterable[Any] = getattr(routing, "iter_route_contexts", iter)(app.routes)
    return {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}
