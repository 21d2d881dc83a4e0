"""Chain state: every key's value at every recent block, in one SQLite file.

A block's changes, its header and its extrinsics are written in one transaction, so a node killed at any
moment opens again at its last whole block. Values are kept by the block that wrote them; a read at an older
block takes the newest version not after it. Versions that no block of the last `HISTORY_BLOCKS` needs are
deleted, as a node without an archive does; blocks themselves are kept for ever, unless all is in memory.
"""

from __future__ import annotations

import bisect
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from neurons.localnet.codec import Codec

HISTORY_BLOCKS = 4096
_LOCK_DEADLINE_S = 15.0
_LAYOUT = "2"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS block (
    number INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, header TEXT NOT NULL, extrinsics TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS storage (
    key BLOB NOT NULL, block INTEGER NOT NULL, value BLOB, PRIMARY KEY (key, block)
) WITHOUT ROWID;
"""


class StateInUse(RuntimeError):
    """Another node has the state file open."""


class StateDiscarded(LookupError):
    """The state of this block is no longer kept."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as stored. `header` is the JSON-RPC form; `extrinsics` are 0x-hex."""

    number: int
    hash: str
    header: Mapping[str, Any]
    extrinsics: tuple[str, ...]


class Reader(Protocol):
    """Raw storage at one moment."""

    def read(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Up to `limit` keys that begin with `prefix` and sort after `after`, in order."""


class View:
    """Typed, read-only storage at one moment."""

    def __init__(self, codec: Codec, reader: Reader) -> None:
        self.codec = codec
        self.reader = reader

    def get(self, pallet: str, item: str, *arguments: Any) -> Any:
        """The decoded value, or the item's default, or None."""
        raw = self.reader.read(self.codec.storage_key(pallet, item, arguments))
        return self.codec.decode_storage(pallet, item, raw)


class Draft(View):
    """Storage that is being changed. Nothing below it changes before `changes` are written there."""

    def __init__(self, codec: Codec, below: Reader) -> None:
        super().__init__(codec, self)
        self._below = below
        self.changes: dict[bytes, bytes | None] = {}

    def read(self, key: bytes) -> bytes | None:
        """The changed value if there is one, else the one below."""
        return self.changes[key] if key in self.changes else self._below.read(key)

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Keys of the changed storage, in order."""
        found = set(self._below.keys(prefix, after, limit + len(self.changes)))
        for key, value in self.changes.items():
            if key.startswith(prefix) and key > after and value is not None:
                found.add(key)
            elif value is None:
                found.discard(key)
        return sorted(found)[:limit]

    def put(self, pallet: str, item: str, *arguments: Any, value: Any) -> None:
        """Write a value at an item's key."""
        key = self.codec.storage_key(pallet, item, arguments)
        self.changes[key] = self.codec.encode_storage(pallet, item, value)

    def remove(self, pallet: str, item: str, *arguments: Any) -> None:
        """Take away what is stored at an item's key, if anything is."""
        self.changes[self.codec.storage_key(pallet, item, arguments)] = None

    def fork(self) -> Draft:
        """A draft on top of this one, to be `absorb`ed or dropped."""
        return Draft(self.codec, self)

    def absorb(self, fork: Draft) -> None:
        """Take over the changes of a fork."""
        self.changes.update(fork.changes)


class Ledger:
    """The file. Use from one thread. `path` None keeps everything in memory.

    Raises StateInUse when another node still has the file after `lock_deadline_s`, ValueError when it is of
    another layout.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        history_blocks: int = HISTORY_BLOCKS,
        lock_deadline_s: float = _LOCK_DEADLINE_S,
    ) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._history_blocks = history_blocks
        self._keeps_blocks = path is not None
        self._prune_every = max(1, history_blocks // 8)
        self._db = sqlite3.connect(path or ":memory:", timeout=lock_deadline_s, isolation_level=None)
        try:
            # Held until close: two nodes on one file would each grow a chain of their own.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._db.close()
            raise StateInUse(f"{path} is in use by another node ({error}): stop that one first") from error
        self._db.executescript(_SCHEMA)
        layout = self.fact("layout")
        if layout not in (None, _LAYOUT):
            raise ValueError(f"{path} has layout {layout}, this node writes {_LAYOUT}: use a new file")
        self._head: dict[bytes, bytes] = dict(
            self._db.execute(
                "SELECT key, value FROM (SELECT key, value, MAX(block) FROM storage GROUP BY key) "
                "WHERE value IS NOT NULL"
            )
        )
        self._sorted = sorted(self._head)

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def fact(self, name: str) -> str | None:
        """A named fact stored with the first block."""
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def append(
        self, block: Block, changes: Mapping[bytes, bytes | None], facts: Mapping[str, str] | None = None
    ) -> None:
        """Write a block and what it changed, all or nothing."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany(
                "INSERT INTO fact VALUES (?, ?)", {"layout": _LAYOUT, **facts}.items() if facts else ()
            )
            self._db.execute(
                "INSERT INTO block VALUES (?, ?, ?, ?)",
                (block.number, block.hash, json.dumps(dict(block.header)), json.dumps(block.extrinsics)),
            )
            self._db.executemany(
                "INSERT INTO storage VALUES (?, ?, ?)",
                ((key, block.number, value) for key, value in changes.items()),
            )
            if block.number % self._prune_every == 0:
                self._prune(block.number - self._history_blocks)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        self._keep(changes)

    def _keep(self, changes: Mapping[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                if self._head.pop(key, None) is not None:
                    del self._sorted[bisect.bisect_left(self._sorted, key)]
                continue
            if key not in self._head:
                bisect.insort(self._sorted, key)
            self._head[key] = value

    def take_back(self) -> None:
        """Undo the newest block, as if it had never been."""
        newest = self.last_block()
        assert newest is not None
        changed = [
            row[0] for row in self._db.execute("SELECT key FROM storage WHERE block = ?", (newest.number,))
        ]
        self._db.execute("BEGIN")
        self._db.execute("DELETE FROM storage WHERE block = ?", (newest.number,))
        self._db.execute("DELETE FROM block WHERE number = ?", (newest.number,))
        self._db.execute("COMMIT")
        before = _Past(self._db, newest.number - 1)
        self._keep({key: before.read(key) for key in changed})

    def last_block(self) -> Block | None:
        """The newest block, or None before genesis."""
        return self._block("SELECT * FROM block ORDER BY number DESC LIMIT 1")

    def block_at(self, number: int) -> Block | None:
        """The block of a number."""
        return self._block("SELECT * FROM block WHERE number = ?", number)

    def block_of(self, block_hash: str) -> Block | None:
        """The block of a hash."""
        return self._block("SELECT * FROM block WHERE hash = ?", block_hash)

    def read(self, key: bytes) -> bytes | None:
        """A value at the newest block."""
        return self._head.get(key)

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Keys at the newest block."""
        found: list[bytes] = []
        before = bisect.bisect_left(self._sorted, prefix)
        for index in range(max(before, bisect.bisect_right(self._sorted, after)), len(self._sorted)):
            if len(found) == limit or not self._sorted[index].startswith(prefix):
                break
            found.append(self._sorted[index])
        return found

    def at(self, number: int, newest: int) -> Reader:
        """Storage as it was after a block. Raises StateDiscarded when that is too long ago."""
        if number == newest:
            return self
        if number <= newest - self._history_blocks:
            raise StateDiscarded(f"state of block {number} is no longer kept")
        return _Past(self._db, number)

    def _block(self, query: str, *arguments: object) -> Block | None:
        row = self._db.execute(query, arguments).fetchone()
        return None if row is None else Block(row[0], row[1], json.loads(row[2]), tuple(json.loads(row[3])))

    def _prune(self, horizon: int) -> None:
        if not self._keeps_blocks:
            # In memory, blocks would be all that grows; nobody can read the state of these any more.
            self._db.execute("DELETE FROM block WHERE number > 0 AND number < ?", (horizon,))
        self._db.execute(
            "DELETE FROM storage WHERE block < ?1 AND EXISTS (SELECT 1 FROM storage AS later WHERE "
            "later.key = storage.key AND later.block > storage.block AND later.block <= ?1)",
            (horizon,),
        )


class _Past:
    """Storage as it was after an older block."""

    def __init__(self, db: sqlite3.Connection, number: int) -> None:
        self._db = db
        self._number = number

    def read(self, key: bytes) -> bytes | None:
        row = self._db.execute(
            "SELECT value FROM storage WHERE key = ? AND block <= ? ORDER BY block DESC LIMIT 1",
            (key, self._number),
        ).fetchone()
        return None if row is None else row[0]

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        return list(self._alive(prefix, after, limit))

    def _alive(self, prefix: bytes, after: bytes, limit: int) -> Iterator[bytes]:
        rows = self._db.execute(
            "SELECT key, value, MAX(block) FROM storage WHERE key >= ?1 AND key > ?2 AND block <= ?3 "
            "AND substr(key, 1, ?4) = ?1 GROUP BY key HAVING value IS NOT NULL ORDER BY key LIMIT ?5",
            (prefix, after, self._number, len(prefix), limit),
        )
        for key, _, _ in rows:
            yield key
