"""Looks whether anything of a slot is left once its job was torn down.

The one thing to know: this is a second look by other means than the teardown's own, so that what the one
overlooks the other finds. A uid belongs to one slot alone, so whatever is found under it is the agent's.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_IPC = ("shm", "sem", "msg")
_SHOWN = 5


def residue(uid: int, mark: str = "") -> tuple[str, ...]:
    """What is left of `uid` on this host: processes and System V IPC objects; and mounts that bear `mark`.

    With a negative uid (agents run under our own) only the mounts are looked at. Reads /proc; takes some
    milliseconds on a host with many processes.
    """
    found: list[str] = []
    if uid >= 0:
        pids = processes_of(uid)
        found += [f"process {pid} of uid {uid}" for pid in pids[:_SHOWN]]
        found += [f"System V {kind} object {number} of uid {uid}" for kind, number in _ipc_of(uid)]
    if mark:
        mounts = _lines(Path("/proc/self/mountinfo"))
        found += [f"mount {line.split()[4]}" for line in mounts if mark in line]
    return tuple(found)


def processes_of(uid: int) -> list[int]:
    """Ids of processes that run as `uid`; those too whose folder in /proc is root's, as it can be made."""
    found = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    owner = entry.stat().st_uid
                    if (owner == uid and _lives(entry.path)) or (owner == 0 and _hidden(entry.path, uid)):
                        found.append(int(entry.name))
    return found


def _lives(folder: str) -> bool:
    """Whether any thread runs still. One that is dead is shown until its parent has looked, and can do
    nothing; but the first thread may be dead while others live."""
    with os.scandir(f"{folder}/task") as threads:
        for thread in threads:
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"{thread.path}/stat", "rb") as file,  # noqa: PTH123
            ):
                if file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
                    return True
    return False


def _hidden(folder: str, uid: int) -> bool:
    """Whether a process whose folder is root's runs as `uid`. Threads of the kernel execute no file."""
    with contextlib.suppress(FileNotFoundError):
        os.readlink(f"{folder}/exe")  # noqa: PTH115 - a third of the cost of looking further
        return _effective_uid(folder) == uid
    return False


def _effective_uid(folder: str) -> int:
    with open(f"{folder}/status", "rb") as file:  # noqa: PTH123 - one for each process of the host
        for line in file:
            if line.startswith(b"Uid:"):
                return int(line.split()[2])
    return -1


def _ipc_of(uid: int) -> list[tuple[str, str]]:
    found = []
    for kind in _IPC:
        header, *lines = _lines(Path("/proc/sysvipc") / kind) or [""]
        columns = header.split()
        if "uid" not in columns:
            continue
        for line in lines:
            words = line.split()
            if words[columns.index("uid")] == str(uid):
                found.append((kind, words[1]))
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
