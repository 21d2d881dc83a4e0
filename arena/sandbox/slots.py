"""Who may use which slot: one job at a time, under a uid that no other job of this host has.

The one thing to know: where something was left behind, the slot is not used again in this process, nor its
uid on this host, for two agents under one uid could signal each other and use up each other's limits. The
quarantined uid is kept as a file, so that other processes heed it and `arena doctor` shows it; it ends when
somebody finds nothing left there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.inside import FIRST_UID, SLOTS
from arena.sandbox.limits import own_identity
from arena.sandbox.residue import residue
from arena.sandbox.sandbox import SandboxUnavailable, SlotQuarantined
from arena.sandbox.staging import socket_root

_log = logging.getLogger(__name__)
_FOLDER = "quarantined"


class NoSlotLeft(SandboxUnavailable):
    """Every slot of this worker is quarantined; the message says what is left in them."""

    def __init__(self, quarantined: dict[int, str]) -> None:
        left = "; ".join(f"slot {slot}: {why}" for slot, why in sorted(quarantined.items()))
        super().__init__(
            f"no sandbox slot is left to play in ({left}). End what is left there, or restart this host, and "
            "start again; `arena doctor` lists the slots"
        )


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A uid out of use on this host: why, and which process found it so."""

    uid: int
    why: str
    by: str


class Slots:
    """The slots of one backend in this process."""

    def __init__(self, *, own_uid: bool) -> None:
        """`own_uid`: agents run under our own uid, by which nothing can be told of one slot."""
        self._own_uid = own_uid
        self._taken: set[int] = set()
        self.quarantined: dict[int, str] = {}

    @contextlib.contextmanager
    def claim(self, slot: int) -> Iterator[int]:
        """Have a slot for oneself: its uid on the host, -1 for our own.

        Raises ValueError where it is taken or no slot, SlotQuarantined, SandboxUnavailable, OSError.
        """
        if not 0 <= slot < SLOTS:
            raise ValueError(f"slot must be from 0 to {SLOTS - 1}, not {slot}")
        if slot in self._taken:
            raise ValueError(f"slot {slot} is running a job: use another")
        if why := self.quarantined.get(slot):
            raise SlotQuarantined(slot, why)
        self._taken.add(slot)
        try:
            if self._own_uid:
                yield -1
            else:
                with _uid_for(slot) as uid:
                    yield uid
        finally:
            self._taken.discard(slot)

    def quarantine(self, slot: int, uid: int, left: tuple[str, ...]) -> None:
        """Never use `slot` again in this process, and say so."""
        why = "; ".join(left)
        self.quarantined[slot] = why
        _log.error("slot %d is quarantined, because this was left in it: %s", slot, why)
        if uid >= 0:
            with contextlib.suppress(OSError):
                file = _mark(uid)
                file.parent.mkdir(exist_ok=True)
                file.write_text(json.dumps({"why": why, "by": own_identity()}))


@contextlib.contextmanager
def _uid_for(slot: int) -> Iterator[int]:
    """A uid that nobody uses: the slot's own, or the next free one. The kernel frees those of the dead."""
    root = socket_root()
    root.mkdir(exist_ok=True)
    root.chmod(0o711)
    lock = os.open(root / "uids.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for number in (*range(slot, SLOTS), *range(slot)):
            # Locks of the open file, not of the process: two sandboxes of one process keep apart, too.
            region = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
            try:
                fcntl.fcntl(lock, fcntl.F_OFD_SETLK, region)
            except (BlockingIOError, PermissionError):
                continue
            if _usable(FIRST_UID + number):
                yield FIRST_UID + number
                return
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, 0, number, 1, 0))
        raise SandboxUnavailable(f"all {SLOTS} uids for agents are in use on this host, or quarantined")
    finally:
        os.close(lock)


def _usable(uid: int) -> bool:
    """Whether a uid is not quarantined, or no longer."""
    mark = _mark(uid)
    if not mark.exists():
        return True
    if residue(uid):
        return False
    mark.unlink(missing_ok=True)
    return True


def quarantined_here() -> list[Quarantined]:
    """The uids that are out of use on this host."""
    found = []
    folder = socket_root() / _FOLDER
    for file in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(file.read_text())
            found.append(Quarantined(int(file.name), str(kept["why"]), str(kept["by"])))
    return sorted(found, key=lambda each: each.uid)


def _mark(uid: int) -> Path:
    return socket_root() / _FOLDER / str(uid)
