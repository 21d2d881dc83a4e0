"""The `arena` command as people start it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """Ours, without what would be settings, with another home, and with the code under test."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("ARENA_", "BT_", "OPENAI_"))}
    return ours | {"HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def arena(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> subprocess.CompletedProcess[str]:
    """Run `arena` in `folder` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "neurons.cli", *arguments],
        cwd=folder,
        env=environment(folder) if env is None else dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


class Running:
    """An `arena` that goes on running; a context manager that stops it."""

    def __init__(self, folder: Path, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "neurons.cli", *arguments],
            cwd=folder,
            env=environment(folder) if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_for(self, words: str, deadline_s: float = DEADLINE_S) -> str:
        """The first line on stderr with `words` in it."""
        until = time.monotonic() + deadline_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"never said {words!r}, but:\n" + "".join(self.said))
            self.said.append(line)
            if words in line:
                return line

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def family(self) -> list[psutil.Process]:
        """The process and all its descendants."""
        me = psutil.Process(self._process.pid)
        return [me, *me.children(recursive=True)]

    def stop(self, number: int = signal.SIGTERM, deadline_s: float = DEADLINE_S) -> int:
        """Send a signal and return the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(deadline_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)
