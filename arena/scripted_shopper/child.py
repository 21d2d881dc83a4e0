"""The scripted shopper as a child process, for whoever needs a model and has none."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 5.0
_POLL_S = 0.02


class ShopperNotStarted(RuntimeError):
    """The scripted shopper's process ended, or did not open its port in time."""


class ShopperServer:
    """The scripted shopper in a process of its own; a context manager. It also stops when this process dies.

    `start` blocks for about a second: in an event loop, call it with `asyncio.to_thread`.
    """

    def __init__(self, *, deadline_s: float = START_DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def base_url(self) -> str:
        """The OpenAI base URL, ending in /v1. Raises ShopperNotStarted before `start`."""
        if self._port is None:
            raise ShopperNotStarted("the scripted shopper is not running; call start() first")
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> Self:
        """Start it and wait until it takes connections. Raises ShopperNotStarted."""
        if self._process is not None:
            raise ShopperNotStarted("the scripted shopper is already running; call stop() first")
        self._folder = tempfile.TemporaryDirectory(prefix="scripted-shopper-")
        port_file, log = Path(self._folder.name) / "port", Path(self._folder.name) / "log"
        root = Path(__file__).resolve().parents[2]
        command = [sys.executable, "-m", "arena.scripted_shopper", "--port-file", str(port_file)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=root
            )
        until = time.monotonic() + self._deadline_s
        while not port_file.exists():
            if self._process.poll() is not None:
                written = log.read_text(errors="replace")[-2000:]
                self.stop()
                raise ShopperNotStarted(f"the scripted shopper ended before it was ready: {written}")
            if time.monotonic() > until:
                self.stop()
                raise ShopperNotStarted(f"the scripted shopper was not ready within {self._deadline_s:g} s")
            time.sleep(_POLL_S)
        self._port = int(port_file.read_text())
        return self

    def stop(self) -> None:
        """Stop it. Doing so twice is fine."""
        process, self._process, self._port = self._process, None, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_DEADLINE_S)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
