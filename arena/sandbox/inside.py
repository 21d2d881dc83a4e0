"""What an agent finds around itself, the same in every sandbox: paths, variables, its uid, its socket.

The one thing to know: backends may differ in how they hold an agent, never in what they show it, or one agent
would score differently on two validators.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from arena.sandbox.sandbox import AGENT, PYTHON, SCREENING, Job, SandboxUnavailable
from arena.sandbox.staging import check_reachable

FIRST_UID = 61000
"""Uid of slot 0 on the host."""
SLOTS = 1000
SHARED_MEMORY_BYTES = 1 << 20
SHARED_MEMORY_FILES = 64
"""Size of /dev/shm where it is not the work folder."""
AGENT_FILE = "/agent/agent.py"
SOCKET = "/run/arena/recorder.sock"
SCREENING_FILE = "/support/screening/arena/screening_child.py"
PYTHON_FILE = "/python/bin/python3"
ENVIRONMENT = {
    "PATH": "/python/bin",
    "HOME": "/work",
    "TMPDIR": "/work",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "LD_LIBRARY_PATH": "/python/lib/shared",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "ARENA_SOCKET": SOCKET,
    "ARENA_PACKAGES": "/packages",
    "ARENA_KIT": "/kit/agent_kit",
}


def command_inside(job: Job) -> list[str]:
    """The job's command with the paths of the inside."""
    chosen = job.command or (PYTHON, "-I", "-B", "/kit/agent_kit/launch.py", AGENT)
    return [
        {PYTHON: PYTHON_FILE, AGENT: AGENT_FILE, SCREENING: SCREENING_FILE}.get(word, word) for word in chosen
    ]


def admit(socket: Path | None, uid: int) -> None:
    """Let `uid` (-1: ourselves) connect to the socket. Raises SandboxUnavailable or OSError: our fault."""
    if socket is None:
        return
    about = socket.stat()
    if not stat.S_ISSOCK(about.st_mode):
        raise SandboxUnavailable(
            f"{socket} is not a socket: the recorder must listen before the sandbox starts"
        )
    if uid < 0:
        return
    check_reachable(socket.resolve().parent)
    if about.st_uid == uid:
        return
    if os.geteuid() == 0:
        os.chown(socket, uid, -1)
    else:
        socket.chmod(0o666)  # in a folder that only those enter who know its name
