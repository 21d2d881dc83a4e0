"""`arena demo` as a process of its own, which a test may watch, kill, and start again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psutil

from storage.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
RUN_DEADLINE_S = 900.0
POINT_DEADLINE_S = 400.0
GONE_DEADLINE_S = 30.0
_LOOK_EVERY_S = 0.05
_MARK = "DEMO_OF_TEST"

Point = Callable[[asyncpg.Connection, Path], Awaitable[bool]]
"""Whether a running demo is where it is waited for; asks its database and its folder."""


class Demo:
    """The demo of one data folder, started as often as it takes. Use `demo_in` to have it cleaned up."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        self._command = [sys.executable, "-m", "neurons.cli", "demo", "--json", "--data-dir", str(data_dir)]
        self._command += options
        self._mark = uuid4().hex
        self._child: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self.kin: set[psutil.Process] = set()
        """Every process that was seen to belong to a start of this demo."""

    def start(self) -> None:
        self._starts += 1
        with self._log("out").open("wb") as out, self._log("err").open("wb") as err:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=_plain_environment() | {_MARK: self._mark},
            )

    def report(self) -> dict[str, Any]:
        """Wait for the end and return what was printed."""
        child = self._running()
        status = child.wait(RUN_DEADLINE_S)
        assert status == 0, f"exit status {status}: {self.said()}"
        self._child = None
        found: dict[str, Any] = json.loads(self._log("out").read_text())
        return found

    def run(self) -> dict[str, Any]:
        """Start it, wait for its end, and return the report."""
        self.start()
        return self.report()

    def wait_for(self, point: Point) -> None:
        """Return when the demo is at `point`. Fails when it ended before, or has not come there in time."""
        until = time.monotonic() + POINT_DEADLINE_S
        while not asyncio.run(self._at(point)):
            assert self._running().poll() is None, f"it ended before it came to the point: {self.said()}"
            assert time.monotonic() < until, f"it did not come to the point in time: {self.said()}"
            time.sleep(_LOOK_EVERY_S)

    def kill(self) -> None:
        """End it with SIGKILL, together with nothing else."""
        child = self._running()
        child.send_signal(signal.SIGSTOP)  # so that nothing is born while its kin are counted
        self.kin |= self._living()
        child.kill()
        child.wait(GONE_DEADLINE_S)
        self._child = None

    def survivors(self, *, database_may_live: bool) -> list[str]:
        """What still runs of it, once all have had time to notice their parent's death."""
        kin = {p for p in self.kin | self._living() if not (database_may_live and _is_database(p))}
        _, alive = psutil.wait_procs(kin, timeout=GONE_DEADLINE_S)
        return [described for process in alive if (described := _described(process))]

    def said(self) -> str:
        """What the last start wrote on standard error."""
        return self._log("err").read_text(errors="replace")[-3000:]

    def clean_up(self) -> None:
        """End whatever a failed test left running."""
        if self._child is not None:
            self.kill()
        for process in self.kin | self._living():
            if not _is_database(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        if (self.data_dir / "postgres").exists():
            EmbeddedServer(self.data_dir).release()

    async def _at(self, point: Point) -> bool:
        try:
            database = await asyncpg.connect(
                user="postgres", database="arena", host=str(self.data_dir / "postgres"), timeout=10
            )
        except (OSError, asyncpg.PostgresError):
            return False  # not up yet
        try:
            return await point(database, self.data_dir)
        except asyncpg.UndefinedTableError:
            return False
        finally:
            await database.close(timeout=10)

    def _living(self) -> set[psutil.Process]:
        """Its descendants, and whoever else carries its mark or names its folder."""
        found: set[psutil.Process] = set()
        if self._child is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= set(psutil.Process(self._child.pid).children(recursive=True))
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = process.environ().get(_MARK) == self._mark
                if ours or any(str(self.data_dir) in word for word in process.cmdline()):
                    found.add(process)
        return {p for p in found if self._child is None or p.pid != self._child.pid}

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None, "the demo was not started"
        return self._child

    def _log(self, name: str) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}-{self._starts}.{name}")


@contextlib.contextmanager
def demo_in(folder: Path, options: Sequence[str]) -> Iterator[Demo]:
    """A demo whose data lie in `folder`."""
    demo = Demo(folder / "arena", *options)
    try:
        yield demo
    finally:
        demo.clean_up()


def _plain_environment() -> dict[str, str]:
    """Ours, without what would be taken for a setting of the arena."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ARENA_")}


def _is_database(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "postgres"
    return False


def _described(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None  # ended; whoever adopted it has yet to notice
        return f"{process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return None
