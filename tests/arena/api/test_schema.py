"""The description against the application: whatever is asked, nothing fails and nothing undeclared is said.

Schemathesis makes the requests from the description: its examples, its edge cases, and what is not as it
says.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import asyncpg
import bittensor as bt
import pytest
import requests
import schemathesis
from bittensor.keyfiles import Keypair
from hypothesis import HealthCheck, settings
from schemathesis import checks
from sqlalchemy import select

from neurons.serving import serving
from storage.database import Database
from storage.embedded import EmbeddedServer
from storage.tables import Suite, Trace
from tests.arena.api.played import Played
from tests.arena.api.stage import MINER, OPERATOR, OTHER, STRANGER, VALIDATOR, api
from tests.arena.stores import Clock

DATABASE = "arena_schema"
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
]
CALLERS: tuple[Keypair | None, ...] = (None, MINER, OPERATOR, STRANGER)


@dataclass
class Served:
    """Where the application is served, and what there is in it: values by the names of path parameters."""

    url: str
    known: dict[str, list[str]] = field(default_factory=dict)


class Signing(requests.auth.AuthBase):
    """Signs requests as they go out."""

    def __init__(self, keypair: Keypair) -> None:
        self._keypair = keypair

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        request.headers.update(
            bt.http_auth.sign(
                self._keypair,
                method=request.method,
                path=request.path_url,
                body=body.encode() if isinstance(body, str) else body,
                receiver_ss58=VALIDATOR.ss58_address,
            )
        )
        return request


@pytest.fixture(scope="module")
def served(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The application over HTTP, from a thread with a loop of its own."""
    folder = tmp_path_factory.mktemp("schema")
    came_up: list[Served] = []
    up, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with _stored(postgres, folder) as (database, known):
            minutes = itertools.count(0.0, 60.0)
            app = api(database, lambda: datetime.now(UTC), tick=lambda: next(minutes))
            async with serving(app, "127.0.0.1", 0) as url:
                came_up.append(Served(url, known))
                up.set()
                await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            up.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        up.wait(60)
        yield came_up[0]
    finally:
        stop.set()
        thread.join(30)


@asynccontextmanager
async def _stored(
    postgres: EmbeddedServer, folder: Path
) -> AsyncIterator[tuple[Database, dict[str, list[str]]]]:
    """A database with a settled race, whose embargo is over, and one that has just been opened."""
    admin = postgres.url("postgres")
    connection = await asyncpg.connect(
        user=admin.username, database=admin.database, host=admin.query["host"], timeout=10
    )
    await connection.execute(f'DROP DATABASE IF EXISTS "{DATABASE}" WITH (FORCE)')
    await connection.execute(f'CREATE DATABASE "{DATABASE}"')
    await connection.close(timeout=10)
    url = postgres.url(DATABASE).render_as_string(hide_password=False)
    async with Database.open(url, folder) as database:
        await database.migrate()
        played = Played(database, Clock(), {"champ": STRANGER, "good": MINER, "weak": OTHER})
        race_id = await played.open_first()
        for _ in range(4):
            await played.play_all()
            await played.advance(race_id)
        settled = await played.race(race_id)
        assert settled.state == "settled"
        await played.engine.open_race(settled.public_suite_id, settled.pool_suite_id)
        async with database.session() as session:
            traces = await session.scalars(select(Trace.id).where(Trace.final).limit(5))
            suites = await session.scalars(select(Suite.id))
            known = {
                "submission_id": [str(i) for i in played.submissions.values()],
                "trace_id": [str(i) for i in traces],
                "suite_id": list(suites),
                "number": ["1", "2"],
            }
        yield database, known


# What the application says of itself asks no database.
schema = schemathesis.openapi.from_dict(api(cast(Database, None), lambda: datetime.now(UTC)).openapi())


@schema.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_asked_the_answer_is_one_that_is_declared(case: Any, served: Served) -> None:
    choose = _chooser(case)
    for name, values in served.known.items():
        if name in (case.path_parameters or {}) and choose(2):
            case.path_parameters[name] = values[choose(len(values))]
    caller = CALLERS[choose(len(CALLERS))]
    answer = case.call(base_url=served.url, auth=None if caller is None else Signing(caller), timeout=20)
    case.validate_response(answer, checks=CHECKS)


def _chooser(case: Any) -> Callable[[int], int]:
    """Numbers below what is asked for, always the same ones for the same case."""
    seed = f"{case.method} {case.path} {case.path_parameters} {case.query} {case.headers}".encode(
        errors="replace"
    )
    count = itertools.count()
    return lambda below: zlib.crc32(seed + bytes([next(count)])) % below
