"""Write the revision that brings the migrations up to `storage.tables`: `python -m storage.migrations "why"`.

It compares the tables with a fresh database that has every revision so far. Read what it wrote before you
keep it:
a renamed column looks like a dropped one and a new one.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from storage.database import Database, migration_config


async def _write(folder: Path, message: str) -> None:
    async with Database.open(None, folder) as database:
        await database.migrate()
        async with database.engine.begin() as connection:
            await connection.run_sync(_revise, message)


def _revise(connection: Connection, message: str) -> None:
    config = migration_config(connection)
    number = len(list(ScriptDirectory.from_config(config).walk_revisions())) + 1
    command.revision(config, message=message, autogenerate=True, rev_id=f"{number:04d}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit('usage: python -m storage.migrations "why the tables change"')
    with tempfile.TemporaryDirectory(prefix="arena-revision-") as scratch:
        Path(scratch).chmod(0o755)  # so that the embedded server's user may pass when this runs as root
        asyncio.run(_write(Path(scratch), sys.argv[1]))
