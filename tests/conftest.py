"""Fixtures for all tests: a real PostgreSQL, started once, and a clean migrated database for each test."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from storage.database import Database
from storage.embedded import EmbeddedServer

_TEMPLATE = "arena_template"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real inputs; the test is skipped where it is absent."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("ARENA_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no test data in {folder}; set ARENA_SHARED_DATA to its folder")
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that any user may pass through; pytest's own are closed to root's helper users."""
    folder = Path(tempfile.mkdtemp(prefix="arena-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """One server for the whole run, with a migrated template database."""
    folder = Path(tempfile.mkdtemp(prefix="arena-tests-"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder)
    try:
        asyncio.run(_make_template(server, folder))
        yield server
    finally:
        server.release()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database_url(postgres: EmbeddedServer) -> Iterator[str]:
    """The URL of a clean, migrated database of this test's own, for tests that start other processes."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    asyncio.run(_administer(postgres, f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}"))
    yield postgres.url(name).render_as_string(hide_password=False)
    asyncio.run(_administer(postgres, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest_asyncio.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """The same, opened."""
    async with Database.open(database_url, tmp_path) as opened:
        yield opened


async def _make_template(server: EmbeddedServer, folder: Path) -> None:
    await _administer(server, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    await _administer(server, f"CREATE DATABASE {_TEMPLATE}")
    url = server.url(_TEMPLATE).render_as_string(hide_password=False)
    async with Database.open(url, folder) as template:
        await template.migrate()


async def _administer(server: EmbeddedServer, *statements: str) -> None:
    url = server.url("postgres")
    connection = await asyncpg.connect(
        user=url.username, database=url.database, host=url.query["host"], timeout=10, command_timeout=60
    )
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
