"""Every process that descends from this one, however often it forked and whoever its parent was.

The one thing to know: while `adopting`, this process is what orphans fall to (PR_SET_CHILD_SUBREAPER), so
that nothing that was started from here can get out of sight, and nobody else's processes are taken for ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import psutil

Role = Literal["launcher", "warden", "bwrap"]
PR_SET_CHILD_SUBREAPER = 36
DATABASE = "postgres"
"""Name of processes that may stay: the test ends its database by itself."""
_LAUNCHER = "/arena/sandbox/launcher.py"
_LOOK_S = 0.05


class Family:
    """Descendants of this process that were born since."""

    def __init__(self) -> None:
        self._elder = set(_descendants())

    @contextlib.contextmanager
    def adopting(self) -> Iterator[None]:
        """Have orphans become children of this process."""
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            yield
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def cast(self) -> dict[Role, list[psutil.Process]]:
        """Who of them belongs to a sandbox, and as what. Wardens are forks of a launcher and look like it."""
        members = {process.pid: process for process in self._members()}
        lines = {pid: _command_line(process) for pid, process in members.items()}
        parents = {pid: _parent(process) for pid, process in members.items()}
        found: dict[Role, list[psutil.Process]] = {"launcher": [], "warden": [], "bwrap": []}
        for pid, process in members.items():
            parent = lines.get(parents[pid], [])
            if lines[pid][:1] and lines[pid][0].endswith("bwrap"):
                if _launches(parent):  # the one inside has bwrap for a parent
                    found["bwrap"].append(process)
            elif _launches(lines[pid]):
                minds = any(parents[other] == pid and not _launches(lines[other]) for other in members)
                found["warden" if minds or _launches(parent) else "launcher"].append(process)
        return found

    def collect(self, apart: Collection[int]) -> None:
        """Take the exit status of orphans that ended; of `apart`, somebody else does."""
        for pid in _children(os.getpid()):
            if pid not in apart:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def left(self, deadline_s: float) -> list[str]:
        """Those that still live after that time, with what they run."""
        until = time.monotonic() + deadline_s
        while True:
            living = {f"{p.pid}: {' '.join(_command_line(p))[:200]}" for p in self._members() if _lives(p)}
            if not living or time.monotonic() > until:
                return sorted(living)
            time.sleep(_LOOK_S)

    def _members(self) -> list[psutil.Process]:
        return [process for process in _descendants() if process not in self._elder]


def _descendants() -> list[psutil.Process]:
    found, parents = [], [os.getpid()]
    while parents:
        for pid in _children(parents.pop()):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
                parents.append(pid)
    return found


def _children(pid: int) -> list[int]:
    """Ids of a process's children. The kernel knows; looking for them among all processes takes long."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _launches(command_line: list[str]) -> bool:
    return any(word.endswith(_LAUNCHER) for word in command_line[:5])


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.name() != DATABASE
    except psutil.NoSuchProcess:
        return False


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return -1
