"""Folders that are built once, by whichever process comes first, and then only read.

The one thing to know: a folder is built beside its final place and renamed into it, so a folder under its
final name is complete, whatever was killed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOCK_DEADLINE_S = 180.0
"""For another process to finish building."""


def build_once(root: Path, kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder `root/kind-key`, filled by `build` where it does not exist yet.

    `build` is given an empty folder and may raise; then nothing remains. Raises TimeoutError when another
    process builds for longer than `LOCK_DEADLINE_S`.
    """
    final = root / f"{kind}-{key}"
    if final.is_dir():
        return final
    with _locked(root / f".{kind}.lock"):
        if final.is_dir():
            return final
        # We hold the lock, so whoever left an unfinished folder is dead.
        for unfinished in root.glob(f".{kind}-*.building"):
            shutil.rmtree(unfinished)
        building = root / f".{kind}-{key}.building"
        building.mkdir()
        building.chmod(0o755)
        try:
            build(building)
            building.rename(final)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return final


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + LOCK_DEADLINE_S
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"another process holds {path} for over {LOCK_DEADLINE_S:g} s"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(fd)
