"""What can go wrong between the program and its store, by who must act.

A broken chain (`storage.events.BrokenChain`) is not here: it says that a record was changed, and belongs to
the record. What SQLAlchemy raises inside a transaction is left as it is: the transaction rolls back, and the
caller, who knows what it was doing, retries or reports it as our failure.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of the store's own errors."""


class DatabaseUnavailable(StorageError):
    """The database cannot be reached or started; the message says what the operator can do."""


class TraceNotFound(StorageError):
    """No stored trace has this id, and no episode with this id has one."""


class TraceRefused(StorageError):
    """A trace contradicts itself and is not stored; a broken chain raises `BrokenChain` instead."""


class ExportRefused(StorageError):
    """An export would overwrite something or has nowhere to go; the message says how to allow it."""
