"""ShoppingBench's product file, `documents.jsonl` or `documents.jsonl.gz`, as a catalog.

The file is 1.4 GB packed and 4.8 GB unpacked, so it is streamed, and an import that was killed goes on from
its last checkpoint to the same catalog. What was read is known by its hash: a file that was fetched again
goes on too, and another file starts anew. A line that is no product is left out and named, with its number
and the reason, in the catalog's `bad_lines.jsonl`; only too large a share of them stops the import.

A line is `{"id": ..., "contents": ..., "product": {...}}` as ShoppingBench (arXiv 2508.04266,
`convert_products_to_documents.py`) writes it, or the product alone. `contents` is made anew from the product.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from problems.shopping.catalog import Catalog, CatalogError, is_catalog, put_in_place
from problems.shopping.catalog_writer import CatalogWriter, RepeatedId, last_note
from problems.shopping.product import Product

MAX_BAD_SHARE = 0.01
"""Of the lines: more that are no product, and this is hardly the file that was meant."""

BAD_LINES = "bad_lines.jsonl"

_JUDGED_FROM = 10_000
"""Lines before the share of bad ones is judged; a shorter file is judged at its end."""
_CHECKPOINT_EVERY = 25_000
_PROGRESS_EVERY = 1_000
_NAMED = 5
"""Bad lines that an error names."""
_MAX_LINE = 4 * 2**20
"""Bytes; ShoppingBench's longest records have some 10,000."""
_BLOCK = 2**20
_GZIP = b"\x1f\x8b"
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)
_LFS = b"version https://git-lfs"


class TooManyBadLines(CatalogError):
    """A larger share of the file is no product than is allowed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is. `done` and `total` are bytes: of the records when resuming, else of the file."""

    stage: Literal["resuming", "reading", "finishing"]
    done: int
    total: int
    products: int
    bad: int


@dataclass(frozen=True, slots=True)
class Imported:
    """A finished import."""

    catalog: Catalog
    lines: int
    bad: int
    first_bad: tuple[str, ...]
    """The first bad lines with their reasons; the catalog's `bad_lines.jsonl` has all."""


class _Position(BaseModel):
    """Where reading stands; kept at every checkpoint."""

    model_config = ConfigDict(extra="forbid")

    offset: int = 0
    """Bytes read, unpacked."""
    digest: str = hashlib.sha256().hexdigest()
    """SHA-256 over them."""
    lines: int = 0
    bad: int = 0
    bad_bytes: int = 0
    first_bad: list[str] = []


class _Line(BaseModel):
    product: Product | None = None


def import_documents(
    source: Path,
    directory: Path,
    *,
    max_bad_share: float = MAX_BAD_SHARE,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Imported:
    """Make a catalog of `source` in `directory`; go on where an earlier import of it was killed.

    Raises CatalogError when `directory` is taken, when another import into it is running, when the file is
    broken, or holds no product, and TooManyBadLines. After these, what was read is kept for the next try.
    """
    if is_catalog(directory):
        raise CatalogError(f"{directory} holds a catalog already: remove it, or import into another folder")
    building = directory.parent / f".{directory.name}.importing"
    try:
        building.mkdir(parents=True, exist_ok=True)
        with _alone(building, directory):
            done = _import(source, building, max_bad_share, progress)
            put_in_place(building, directory)
    except _BROKEN as error:
        raise CatalogError(
            f"{source} is broken: {error}. Fetch it again and import it: what was whole is not read twice"
        ) from error
    return Imported(Catalog.open(directory), done.lines, done.bad, tuple(done.first_bad))


def _import(
    source: Path, building: Path, max_bad_share: float, progress: Callable[[Progress], None]
) -> _Position:
    with _Source(source) as stream:
        position = _resumed(building, stream)
        with (
            CatalogWriter(
                building, lambda done, all: progress(Progress("resuming", done, all, 0, 0))
            ) as writer,
            (building / BAD_LINES).open("ab") as bad_lines,
        ):
            bad_lines.truncate(position.bad_bytes)
            importer = _Importer(stream, writer, position, bad_lines, max_bad_share)
            try:
                for _ in importer.steps():
                    progress(importer.progress("reading"))
                importer.checkpoint()
            except (TooManyBadLines, *_BROKEN):
                importer.checkpoint()  # raised between two lines, so all before is whole
                raise
            if not len(writer):
                raise CatalogError(f"{source} holds no product: it should be ShoppingBench's documents.jsonl")
            progress(importer.progress("finishing"))
            writer.finish(left_out=position.bad)
            return position


def _resumed(building: Path, stream: _Source) -> _Position:
    """Where to read on; the start, with `building` emptied, when what was read before was something else."""
    note = last_note(building)
    if note is not None:
        position = _Position.model_validate(note)
        if stream.skip(position.offset) == position.digest:
            return position
        stream.rewind()
    for left in building.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    return _Position()


@dataclass(slots=True)
class _Importer:
    stream: _Source
    writer: CatalogWriter
    position: _Position
    bad_lines: IO[bytes]
    max_bad_share: float

    def steps(self) -> Iterator[None]:
        """Read to the end, pausing now and then."""
        for line in self.stream.lines():
            self.position.lines += 1
            if line is None:
                self._leave_out(f"it is longer than {_MAX_LINE} bytes")
            elif line.strip():
                self._read(line)
            if self.position.lines % _CHECKPOINT_EVERY == 0:
                self.checkpoint()
            if self.position.lines % _PROGRESS_EVERY == 0:
                yield
        self._judge()

    def checkpoint(self) -> None:
        self.bad_lines.flush()
        self.position.bad_bytes = self.bad_lines.tell()
        self.position.offset = self.stream.offset
        self.position.digest = self.stream.digest()
        self.writer.checkpoint(self.position.model_dump())

    def progress(self, stage: Literal["reading", "finishing"]) -> Progress:
        return Progress(stage, self.stream.packed, self.stream.size, len(self.writer), self.position.bad)

    def _read(self, line: bytes) -> None:
        try:
            product = _Line.model_validate_json(line).product or Product.model_validate_json(line)
            self.writer.add(product)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            self._leave_out(f"{where}: {first['msg']}" if where else first["msg"])
        except RepeatedId as error:
            self._leave_out(str(error))

    def _leave_out(self, reason: str) -> None:
        position = self.position
        position.bad += 1
        if len(position.first_bad) < _NAMED:
            position.first_bad.append(f"line {position.lines}: {reason}")
        self.bad_lines.write(json.dumps({"line": position.lines, "reason": reason}).encode() + b"\n")
        if position.lines >= _JUDGED_FROM:
            self._judge()

    def _judge(self) -> None:
        position = self.position
        if position.bad > self.max_bad_share * position.lines:
            raise TooManyBadLines(
                f"{position.bad} of the first {position.lines} lines of {self.stream.path} are no product, "
                f"where {self.max_bad_share:.2%} may be; {'; '.join(position.first_bad)}. Check that it is "
                "ShoppingBench's documents.jsonl, or allow more with --max-bad-share: the import then goes on"
            )


class _Source:
    """The file, unpacked if need be, with a running hash of what was read of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._packed = path.open("rb")
        start = self._packed.read(len(_LFS))
        self._gzip = start.startswith(_GZIP)
        if start == _LFS:
            self._packed.close()
            raise CatalogError(f"{path} is only a pointer to the file: fetch that with `git lfs pull`")
        self.rewind()

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._packed.close()

    @property
    def packed(self) -> int:
        """Bytes of the file that were used up."""
        return self._packed.tell()

    def rewind(self) -> None:
        self._packed.seek(0)
        self._stream: IO[bytes] = self._packed
        if self._gzip:
            unpacked: Any = gzip.GzipFile(fileobj=self._packed, mode="rb")
            self._stream = io.BufferedReader(unpacked, _BLOCK)
        self._hash = hashlib.sha256()
        self.offset = 0

    def digest(self) -> str:
        """SHA-256 over all that was read."""
        return self._hash.hexdigest()

    def skip(self, count: int) -> str:
        """Read on for `count` bytes, or to the end if that comes first; return the digest."""
        while count > 0 and (block := self._stream.read(min(count, _BLOCK))):
            count -= len(block)
            self._took(block)
        return self.digest()

    def lines(self) -> Iterator[bytes | None]:
        """The lines to come; None for one that is too long."""
        while line := self._stream.readline(_MAX_LINE):
            if len(line) < _MAX_LINE or line.endswith(b"\n"):
                self._took(line)
                yield line
            else:
                self._took_long(line)
                yield None

    def _took_long(self, part: bytes) -> None:
        """Read to the end of a long line; it counts whole, or not at all if the file breaks off in it."""
        ahead, length = self._hash.copy(), 0
        while part:
            ahead.update(part)
            length += len(part)
            part = b"" if part.endswith(b"\n") else self._stream.readline(_MAX_LINE)
        self._hash = ahead
        self.offset += length

    def _took(self, read: bytes) -> None:
        self._hash.update(read)
        self.offset += len(read)


@contextmanager
def _alone(building: Path, directory: Path) -> Iterator[None]:
    """Keep other imports out of `building`; a lock goes with its process, however that ends."""
    lock = os.open(building, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CatalogError(f"another import into {directory} is running: wait for it, or end it") from None
    finally:
        os.close(lock)
