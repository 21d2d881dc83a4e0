"""Alembic's environment: runs the migrations on the connection that the caller put into the configuration.

The caller owns the transaction and the lock, so that a migration is applied whole or not at all.
"""

from __future__ import annotations

from alembic import context

from storage.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    compare_type=True,
    compare_server_default=True,
)
context.run_migrations()
