"""The database: engine, transactions, migrations. One dialect, PostgreSQL; embedded when no URL is given.

The one thing to know: `async with database.session() as session` is one transaction. It commits when the
block ends and rolls back when anything escapes from it. Every wait has a deadline: for a connection, for a
place in the pool, for a lock, and for a statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from storage.embedded import EmbeddedServer
from storage.errors import DatabaseUnavailable

EMBEDDED_DATABASE = "arena"

CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 60.0
LOCK_TIMEOUT_S = 30.0
POOL_TIMEOUT_S = 30.0
IDLE_IN_TRANSACTION_TIMEOUT_S = 300.0
"""After this PostgreSQL ends a transaction that a stuck client holds open, and with it the client's locks."""

_MIGRATION_LOCK = 0x6172656E61
"""Key of the advisory lock under which migrations run: "arena" in ASCII."""


class Database:
    """A pool of connections to one PostgreSQL database. Made by `open`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._sessions = async_sessionmaker(engine, expire_on_commit=False)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str | None, data_dir: Path, *, pool_size: int = 10) -> AsyncIterator[Database]:
        """Connect to `url`, or, when it is None, to the server embedded in `data_dir`/postgres.

        `url` is `postgresql://` or `postgresql+asyncpg://`. At most twice `pool_size` connections are open at
        once. Raises DatabaseUnavailable when there is no database to be had; the message says what to do.
        """
        if url is not None:
            async with _connected(cls, asyncpg_url(url), pool_size) as database:
                yield database
            return
        server = await asyncio.to_thread(EmbeddedServer, data_dir)
        try:
            await _create_if_absent(server)
            async with _connected(cls, server.url(EMBEDDED_DATABASE), pool_size) as database:
                yield database
        finally:
            await asyncio.to_thread(server.release)

    @property
    def engine(self) -> AsyncEngine:
        """The engine, for what needs a connection of its own."""
        return self._engine

    @property
    def url(self) -> str:
        """The URL with its password, such that another process can open the same database with it."""
        return self._engine.url.render_as_string(hide_password=False)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session in one transaction: committed when the block ends, rolled back if anything escapes."""
        async with self._sessions.begin() as session:
            yield session

    async def migrate(self) -> None:
        """Bring the tables to the newest version. Safe when several processes do it at once.

        The transaction holds an advisory lock, so that one process works and the others then find it done.
        """
        async with self._engine.begin() as connection:
            await connection.execute(text(f"SET LOCAL lock_timeout = '{STATEMENT_TIMEOUT_S:.0f}s'"))
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            await connection.run_sync(_upgrade)


def asyncpg_url(url: str) -> URL:
    """`url` as SQLAlchemy wants it for asyncpg. Raises DatabaseUnavailable when it is none of PostgreSQL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise DatabaseUnavailable(f"the database URL cannot be read: {error}") from error
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise DatabaseUnavailable(
            f"the database URL begins with {parsed.drivername}://, but only postgresql:// is supported; "
            "leave the URL out to use the embedded server"
        )
    query = dict(parsed.query)
    if "sslmode" in query:  # libpq's name for what asyncpg calls ssl
        query["ssl"] = query.pop("sslmode")
    return parsed.set(drivername="postgresql+asyncpg", query=query)


def migration_config(connection: Connection) -> Config:
    """Alembic's configuration, in code, for running on `connection`."""
    config = Config()
    config.set_main_option("script_location", "storage:migrations")
    config.set_main_option("path_separator", "os")
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    command.upgrade(migration_config(connection), "head")


@asynccontextmanager
async def _connected(made: type[Database], url: URL, pool_size: int) -> AsyncIterator[Database]:
    engine = create_async_engine(
        url,
        hide_parameters=True,  # errors are logged; answers, and source under embargo, must not be
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
        connect_args={
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": STATEMENT_TIMEOUT_S + 5,  # for a server that no longer answers at all
            "server_settings": _server_settings(),
        },
    )
    try:
        try:
            async with asyncio.timeout(2 * CONNECT_TIMEOUT_S), engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except (OSError, TimeoutError, SQLAlchemyError, asyncpg.PostgresError) as error:
            shown = url.render_as_string(hide_password=True)
            raise DatabaseUnavailable(
                f"no connection to {shown}: {str(error) or type(error).__name__}; check that PostgreSQL runs "
                "there and that user and database exist, or leave the URL out to use the embedded server"
            ) from error
        yield made(engine)
    finally:
        await engine.dispose()


def _server_settings() -> dict[str, Any]:
    seconds = {
        "statement_timeout": STATEMENT_TIMEOUT_S,
        "lock_timeout": LOCK_TIMEOUT_S,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_S,
    }
    return {"application_name": "arena", **{name: f"{value * 1000:.0f}" for name, value in seconds.items()}}


async def _create_if_absent(server: EmbeddedServer) -> None:
    """Create the database in a fresh embedded server."""
    admin = server.url("postgres")
    try:
        connection = await asyncpg.connect(
            user=admin.username,
            database=admin.database,
            host=admin.query["host"],
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=STATEMENT_TIMEOUT_S,
        )
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise DatabaseUnavailable(f"the embedded PostgreSQL does not take connections: {error}") from error
    try:
        found = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", EMBEDDED_DATABASE)
        if found is None:
            await connection.execute(f'CREATE DATABASE "{EMBEDDED_DATABASE}"')
    except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        pass  # another process was faster
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT_S)
