"""The system user that an embedded server runs as, and whether that user can reach a folder.

PostgreSQL refuses to run as root. Root therefore runs it as the owner of its files, or as `pgserver`, made
when it is absent. Nothing here changes the permissions of a folder: opening a closed one is for the operator
to decide.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from storage.errors import DatabaseUnavailable

SYSTEM_USER = "pgserver"
"""Who runs the server when root starts it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The system user the server runs as."""

    name: str
    uid: int
    gid: int

    @property
    def switch(self) -> bool:
        """Whether that is not the user we are."""
        return self.uid != os.geteuid()


def owner_of(home: Path) -> Owner:
    """Who runs the server: us; for root, the owner of the files, or `pgserver`, made if absent."""
    if os.geteuid() != 0:
        return _ourselves()
    made = home.exists() and home.stat().st_uid != 0
    entry = pwd.getpwuid(home.stat().st_uid) if made else _system_user()
    return Owner(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _ourselves() -> Owner:
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name  # not $USER: the server asks the system, and so must we
    except KeyError:
        raise DatabaseUnavailable(
            f"user id {os.geteuid()} has no name on this system, and PostgreSQL wants one; add it to "
            "/etc/passwd, or give a PostgreSQL URL"
        ) from None
    return Owner(name, os.geteuid(), os.getegid())


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    command = [
        "useradd",
        "--system",
        "--user-group",
        "--no-create-home",
        "--shell",
        "/bin/false",
        SYSTEM_USER,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        try:  # another process may have made it meanwhile
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            raise DatabaseUnavailable(
                f"PostgreSQL cannot run as root, and user {SYSTEM_USER} could not be made ({error}); make it "
                f"yourself (`{' '.join(command)}`), run as an ordinary user, or give a PostgreSQL URL"
            ) from error
    return pwd.getpwnam(SYSTEM_USER)


def require_reach(path: Path, owner: Owner) -> None:
    """Raise DatabaseUnavailable when `owner` may not pass through some parent of `path`."""
    if not owner.switch:
        return
    barrier = barrier_to(path, owner)
    if barrier is not None:
        raise DatabaseUnavailable(
            f"PostgreSQL cannot run as root, and user {owner.name}, whom root runs it as, may not pass "
            f"through {barrier} to {path}; choose a --data-dir elsewhere (such as /var/lib/arena), run as an "
            "ordinary user, or give a PostgreSQL URL"
        )


def barrier_to(path: Path, owner: Owner) -> Path | None:
    """The topmost parent of `path` that `owner` may not pass through, links followed; None if it may."""
    for parent in [*reversed(path.resolve().parents), *reversed(path.parents)]:
        found = parent.stat()
        if found.st_uid == owner.uid:
            needed = stat.S_IXUSR
        elif found.st_gid == owner.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not found.st_mode & needed:
            return parent
    return None
