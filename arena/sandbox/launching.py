"""Our end of the launcher: starts it when it is first needed, and hands it jobs.

The one thing to know: there is one launcher for each staged Python in a process, whatever the number of
sandboxes and event loops, and it ends when this process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.staging import StagedPython

READY = 3
"""The descriptor on which a command reports that everything stands."""
FIRST_DESCRIPTOR = 4
"""That of the first of `Launch.descriptors`; the others follow."""
START_DEADLINE_S = 30.0
_PAUSE_S = 0.002
_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be started. `uid` -1 keeps our own; `descriptors` become `FIRST_DESCRIPTOR` and up."""

    command: Sequence[str]
    environment: Mapping[str, str]
    uid: int = -1
    descriptors: Sequence[int] = ()
    folder: Path = Path("/")


class Launcher:
    """A launcher process, started again should it be gone."""

    def __init__(self, python: Path, libraries: Path) -> None:
        self._command = (str(python), "-I", "-S", str(_LAUNCHER))
        self._environment = {"LD_LIBRARY_PATH": str(libraries)}
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._owner = -1

    async def start(
        self,
        launch: Launch,
        rlimits: Mapping[int, tuple[int, int]],
        entrances: Sequence[Path],
        lines: Sequence[int],
    ) -> None:
        """Have a command started. `lines`: control socket, stdout, stderr, ready. Raises OSError."""
        request = {
            "command": list(launch.command),
            "environment": dict(launch.environment),
            "uid": launch.uid,
            "folder": str(launch.folder),
            "rlimits": [[number, soft, hard] for number, (soft, hard) in rlimits.items()],
            "entrances": [str(entrance) for entrance in entrances],
        }
        message = json.dumps(request).encode()
        deadline = asyncio.get_running_loop().time() + START_DEADLINE_S
        while True:
            requests = self._running()
            try:
                socket.send_fds(requests, [message], [*lines, *launch.descriptors])
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    raise TimeoutError("the launcher of sandboxes does not answer") from None
                await asyncio.sleep(_PAUSE_S)
            except (BrokenPipeError, ConnectionResetError):
                self._drop(requests)  # it died; the next one is no worse
                if asyncio.get_running_loop().time() > deadline:
                    raise
            else:
                return

    def _running(self) -> socket.socket:
        """Where it takes requests. A fork of this process has a launcher of its own."""
        with self._lock:
            if self._requests is None or self._owner != os.getpid():
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    # It leaves a child behind and returns, so there is nobody to collect later.
                    subprocess.run(
                        [*self._command, str(theirs.fileno())],
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        cwd="/",
                        pass_fds=[theirs.fileno()],
                        timeout=START_DEADLINE_S,
                        check=False,
                    )
                ours.setblocking(False)
                self._requests, self._owner = ours, os.getpid()
            return self._requests

    def _drop(self, requests: socket.socket) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._requests is requests:
                self._requests = None
            requests.close()


@functools.cache
def _launcher(python: Path, libraries: Path) -> Launcher:
    return Launcher(python, libraries)


def launcher_of(staged: StagedPython) -> Launcher:
    """The launcher on that Python."""
    return _launcher(staged.python, staged.libraries)
