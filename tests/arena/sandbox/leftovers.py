"""What a sandbox left on the host, looked for by other means than its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from arena.rules import Rules
from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.limits import FOLDER, Hierarchies
from arena.sandbox.probe import PROBE_SLOT
from arena.sandbox.sandbox import Job, Limits
from arena.sandbox.slots import quarantined_here
from arena.sandbox.staging import socket_root as runtime_folder
from arena.sandbox.staging import stage
from neurons.host import socket_root


def processes_with(mark: str) -> list[str]:
    """Ids of the host's processes with `mark` on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


def own_groups() -> list[Path]:
    """Control groups that this process made and did not remove."""
    return groups_of(os.getpid())


def groups_of(pid: int) -> list[Path]:
    """Control groups that a process made and that are still there."""
    return [
        group
        for mount in Hierarchies.of_this_host().folders.values()
        for group in (mount / FOLDER).glob(f"*-{pid}-*-*")
    ]


def folders_of(pid: int) -> list[Path]:
    """Work folders that a process made and that are still there, mounted or not."""
    mounted = Path("/proc/self/mountinfo").read_text().split()
    paths = [Path(word) for word in mounted if word.startswith(str(runtime_folder() / "work"))]
    return [
        path
        for path in {*paths, *(runtime_folder() / "work").glob("*")}
        if path.name.split("-")[1:2] == [str(pid)]
    ]


def quarantined_by(pids: Collection[int]) -> list[str]:
    """Why slots were put out of use by these processes."""
    return [each.why for each in quarantined_here() if int(each.by.split("-")[1]) in pids]


async def swept() -> None:
    """Have done what the next process does that plays here: clear up after those that died."""
    sandbox = BubblewrapSandbox(stage(), Path(shutil.which("bwrap") or "bwrap"))
    ended = await sandbox.run(Job(b"", None), Limits(**Rules().sandbox.model_dump()), slot=PROBE_SLOT)
    assert ended.reason == "exit", ended.detail


def aged_sockets() -> list[Path]:
    """Socket folders that nobody holds and that nobody removes though they are not new any more."""
    for folder in _abandoned_sockets():
        os.utime(folder, (0, 0))
    with socket_root():  # which removes them
        pass
    return _abandoned_sockets()


def _abandoned_sockets() -> list[Path]:
    found = []
    for folder in runtime_folder().glob("held-*"):
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(folder)
            finally:
                os.close(opened)
    return found
