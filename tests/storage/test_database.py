"""The database: transactions, migrations, URLs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from storage.database import Database, asyncpg_url
from storage.errors import DatabaseUnavailable
from storage.tables import RequestNonce, Table


async def test_migrations_and_tables_agree(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        options = {"compare_type": True, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Table.metadata))

    async with database.engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_several_processes_may_migrate_an_empty_database_at_once(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with database.session() as session:
        await session.execute(text("DROP SCHEMA public CASCADE"))
        await session.execute(text("CREATE SCHEMA public"))
    async with Database.open(database_url, tmp_path) as other:
        await asyncio.gather(database.migrate(), other.migrate(), database.migrate())
    async with database.session() as session:
        assert await session.scalar(select(func.count()).select_from(RequestNonce)) == 0


async def test_a_session_commits_whole_or_not_at_all(database: Database) -> None:
    async with database.session() as session:
        session.add(RequestNonce(sender="kept", nonce="1"))
    with pytest.raises(DBAPIError):  # the second row of the block is refused, and takes the first with it
        await _add(database, "lost", "kept")
    async with database.session() as session:
        assert (await session.scalars(select(RequestNonce.sender))).all() == ["kept"]


async def test_a_statement_that_hangs_is_ended_by_the_server(database: Database) -> None:
    async with database.session() as session:
        assert await session.scalar(text("SHOW statement_timeout")) == "1min"
        assert await session.scalar(text("SHOW lock_timeout")) == "30s"
        await session.execute(text("SET LOCAL statement_timeout = 1"))
        with pytest.raises(DBAPIError, match="statement timeout"):
            await session.execute(text("SELECT pg_sleep(60)"))


async def test_both_url_forms_open_the_same_database(database_url: str, tmp_path: Path) -> None:
    plain = database_url.replace("postgresql+asyncpg://", "postgresql://")
    assert plain != database_url
    async with Database.open(plain, tmp_path) as opened:
        assert opened.url == database_url


def test_the_ssl_mode_of_libpq_is_understood() -> None:
    assert dict(asyncpg_url("postgresql://u:p@h/d?sslmode=require").query) == {"ssl": "require"}


@pytest.mark.parametrize("url", ["sqlite:///x.db", "mysql://h/d", "not a url"])
def test_a_url_that_is_not_postgresql_is_refused_with_advice(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="URL"):
        asyncpg_url(url)


async def test_an_unreachable_database_is_a_typed_error_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="check that PostgreSQL runs there") as caught:
        async with Database.open("postgresql://u:secret@127.0.0.1:1/d", tmp_path):
            pass
    assert "secret" not in str(caught.value)


async def _add(database: Database, *senders: str) -> None:
    async with database.session() as session:
        for sender in senders:
            session.add(RequestNonce(sender=sender, nonce="1"))
            await session.flush()


async def test_an_error_of_the_database_does_not_repeat_what_was_being_stored(database: Database) -> None:
    with pytest.raises(DBAPIError) as caught:
        async with database.session() as session:
            await session.execute(text("SELECT length(:source) / 0"), {"source": "a source under embargo"})
    assert "embargo" not in str(caught.value)
