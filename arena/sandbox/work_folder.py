"""The agent's writable folder as a file system of its own, bounded in bytes and in files.

The one thing to know: bubblewrap's own tmpfs has no bound on the number of files, and each costs the kernel
a kilobyte though it is empty. So as root we mount one that has both bounds, and bubblewrap binds it; an
ordinary user may not mount, and there only memory bounds the number of files, where a control group does.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.limits import alive, own_identity
from arena.sandbox.sandbox import Limits
from arena.sandbox.staging import socket_root

_MS_NOSUID, _MS_NODEV = 2, 4
_MNT_DETACH = 2
_FOLDER = "work"
_sequence = itertools.count()


@dataclass(frozen=True, slots=True)
class Fill:
    """Whether a work folder had no room left, at the end of the job."""

    bytes_full: bool
    inodes_full: bool


class WorkFolder:
    """One mounted work folder, for one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def mount(cls, limits: Limits, uid: int) -> WorkFolder | None:
        """A new, empty one that belongs to `uid`; None where we may not mount. Raises OSError otherwise."""
        if os.geteuid() != 0:
            return None
        root = socket_root() / _FOLDER
        for folder in (root.parent, root):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        path = root / f"{own_identity()}-{next(_sequence)}"
        path.mkdir()
        # One inode is the folder itself.
        options = f"size={limits.work_bytes},nr_inodes={limits.work_inodes + 1},mode=0700,uid={uid},gid={uid}"
        try:
            _call("mount", b"arena-work", bytes(path), b"tmpfs", _MS_NOSUID | _MS_NODEV, options.encode())
        except PermissionError:
            path.rmdir()
            return None
        except OSError:
            path.rmdir()
            raise
        return cls(path)

    def fill(self) -> Fill:
        """How full it is now."""
        room = os.statvfs(self.path)
        return Fill(bytes_full=room.f_bfree == 0, inodes_full=room.f_ffree == 0)

    def remove(self) -> bool:
        """Unmount it and all that is in it; whether it is gone."""
        return _removed(self.path)


def sweep_work_folders() -> int:
    """Unmount the work folders of owners that died without doing so; returns how many there were."""
    if os.geteuid() != 0:
        return 0
    swept = 0
    root = socket_root() / _FOLDER
    for path in list(root.iterdir()) if root.is_dir() else []:
        found = re.fullmatch(r"(\d+-\d+-\d+)-\d+", path.name)
        if found and not alive(found[1]):
            swept += _removed(path)
    return swept


def _removed(path: Path) -> bool:
    try:
        _call("umount2", bytes(path), _MNT_DETACH)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):  # not mounted, or gone
            return False
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _call(name: str, *arguments: bytes | int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
