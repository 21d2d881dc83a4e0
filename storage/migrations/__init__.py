"""Alembic migrations of the store. `storage.database.Database.migrate` runs them; there is no ini file."""
