"""What a sandbox left on the host, looked for by other means than its own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from arena.sandbox.limits import FOLDER, Hierarchies


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
    return [
        group
        for mount in Hierarchies.of_this_host().folders.values()
        for group in (mount / FOLDER).glob(f"*-{os.getpid()}-*")
    ]
