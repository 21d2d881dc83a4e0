"""Fixtures for all tests: a real PostgreSQL, started once, and a clean migrated database for each test."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from storage.database import Database
from storage.embedded import EmbeddedServer
from storage.tables import Table

_NAME = "arena_test"


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
    """A temporary folder that any user may pass through; pytest's own are closed to all but their owner."""
    with _folder(_memory()) as folder:
        yield folder


@pytest.fixture(scope="session")
def lasting_folder() -> Iterator[Path]:
    """The same, for the whole run."""
    with _folder(_memory()) as folder:
        yield folder


@pytest.fixture
def disk_folder() -> Iterator[Path]:
    """The same on a disk, from which programs may run."""
    with _folder(None) as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """One server for the whole run."""
    with _folder(_memory()) as folder:
        server = EmbeddedServer(folder)
        try:
            asyncio.run(_forgo_durability(server))
            yield server
        finally:
            server.release()


@pytest.fixture
def database_url(postgres: EmbeddedServer) -> str:
    """The URL of a migrated database, emptied for this test; other processes may open it too."""
    asyncio.run(_empty(postgres))
    return postgres.url(_NAME).render_as_string(hide_password=False)


@pytest_asyncio.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """The same, opened."""
    async with Database.open(database_url, tmp_path) as opened:
        yield opened


@contextmanager
def _folder(within: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="arena-test-", dir=within))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> Path | None:
    """A file system in memory with room for databases, where there is one: syncing to disk is slow."""
    shared = Path("/dev/shm")
    roomy = os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 2**30
    return shared if roomy else None


async def _empty(server: EmbeddedServer) -> None:
    """Delete every row, which takes milliseconds; make the database anew if a test left it without tables."""
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    async with _connection(server, "postgres") as connection:
        await connection.execute(others, _NAME)
    try:
        async with _connection(server, _NAME) as connection, connection.transaction():
            for table in reversed(Table.metadata.sorted_tables):
                await connection.execute(f'DELETE FROM "{table.name}"')
    except asyncpg.PostgresError:
        await _make(server)


async def _forgo_durability(server: EmbeddedServer) -> None:
    async with _connection(server, "postgres") as connection:
        await connection.execute("ALTER SYSTEM SET fsync = off")
        await connection.execute("SELECT pg_reload_conf()")


async def _make(server: EmbeddedServer) -> None:
    async with _connection(server, "postgres") as connection:
        await connection.execute(f"DROP DATABASE IF EXISTS {_NAME} WITH (FORCE)")
        await connection.execute(f"CREATE DATABASE {_NAME}")
    url = server.url(_NAME).render_as_string(hide_password=False)
    async with Database.open(url, Path()) as made:
        await made.migrate()


@asynccontextmanager
async def _connection(server: EmbeddedServer, database: str) -> AsyncIterator[asyncpg.Connection]:
    url = server.url(database)
    connection = await asyncpg.connect(
        user=url.username, database=database, host=url.query["host"], timeout=10, command_timeout=60
    )
    try:
        yield connection
    finally:
        await connection.close()
