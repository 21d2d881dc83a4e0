"""Run the node as a child process, and reach its admin door.

The child stops when this process is gone, however it went: it compares its parent's process id before each
block. (The kernel's parent-death signal would fire when the *thread* that started it ends.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from neurons.localnet import metadata
from neurons.localnet.door import Door, LocalNetFailed
from neurons.localnet.subnet import SubnetOptions

__all__ = ["LocalNet", "LocalNetFailed"]

_TAIL_BYTES = 2000


class LocalNet(Door):
    """A local chain in a child process; a context manager, sync or async.

    With `state`, the chain lives in that file: a later start goes on from its last block, whatever ended the
    earlier one, and `netuid`, `options`, `owner` and `fund` then have no effect. `fund` maps key URIs or SS58
    addresses to TAO. `block_time_s` 0 makes blocks only when there is work, or by `advance`. With `seed`,
    time is counted in blocks from a fixed moment, and the same calls in the same blocks give the same hashes.
    `faults` lets faults be injected; `finality_lag` is how many blocks stay open to `reorg`.
    """

    def __init__(
        self,
        *,
        state: Path | None = None,
        netuid: int | None = None,
        options: SubnetOptions | None = None,
        owner: str = "//Owner",
        fund: Mapping[str, float] | None = None,
        block_time_s: float = 0.25,
        finality_lag: int = 0,
        seed: int | None = None,
        faults: bool = False,
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        chosen = options or SubnetOptions()
        self._port = port
        self._log = log if log is not None else state and state.with_name(state.name + ".log")
        self._arguments = ["--block-time", str(block_time_s), "--owner", owner]
        self._arguments += ["--finality-lag", str(finality_lag)]
        self._arguments += ["--faults"] if faults else []
        self._arguments += [] if seed is None else ["--seed", str(seed)]
        for name, value in asdict(chosen).items():
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                self._arguments.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                self._arguments += [f"--{flag}", str(value)]
        if state is not None:
            self._arguments += ["--state", str(state)]
        if netuid is not None:
            self._arguments += ["--netuid", str(netuid)]
        for account, tao in (fund or {}).items():
            self._arguments += ["--fund", f"{account}={tao}"]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the SDK connects. Known once started, and the same after a restart of this object."""
        if not self._port:
            raise LocalNetFailed("the local chain has not been started")
        return f"ws://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._running().pid

    def start(self, deadline_s: float = 30.0) -> Self:
        """Start the node and wait until it accepts connections.

        Raises LocalNetFailed, and MetadataUnavailable when the runtime metadata must first be fetched and
        cannot be (that has a deadline of its own).
        """
        if self._child is not None and self._child.poll() is None:
            raise LocalNetFailed("the local chain is running already")
        metadata.ensure()
        command = [sys.executable, "-m", "neurons.localnet", *self._arguments]
        command += ["--port", str(self._port), "--parent-pid", str(os.getpid())]
        with contextlib.ExitStack() as stack:
            if self._log is None:
                log: Any = subprocess.DEVNULL
            else:
                self._log.parent.mkdir(parents=True, exist_ok=True)
                log = stack.enter_context(self._log.open("ab"))
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"PYTHONPATH": _import_path()},
            )
        url = self._await_ready(self._child, deadline_s)
        self._port = int(url.rpartition(":")[2])
        return self

    def stop(self, deadline_s: float = 10.0) -> None:
        """Stop the node, gently and then not. Does nothing when it is not running."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(deadline_s)
        if child.stdout is not None:
            child.stdout.close()

    def kill(self) -> None:
        """End the node with SIGKILL, as a crash would."""
        self._running().send_signal(signal.SIGKILL)
        self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise LocalNetFailed("the local chain is not running")
        return self._child

    def _await_ready(self, child: subprocess.Popen[bytes], deadline_s: float) -> str:
        assert child.stdout is not None
        ends_at = time.monotonic() + deadline_s
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([child.stdout], [], [], max(0.0, ends_at - time.monotonic()))
            piece = os.read(child.stdout.fileno(), 256) if readable else b""
            if not piece:
                self.stop()
                why = "ended before it was ready" if readable else f"was not ready after {deadline_s:.0f} s"
                raise LocalNetFailed(f"the local chain {why}: {self._last_words()}")
            line += piece
        return line.decode().strip()

    def _last_words(self) -> str:
        if self._log is None:
            return "give it a log file to see why"
        return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip() or f"see {self._log}"


def _import_path() -> str:
    """The import path of the child: the code this process runs comes first, installed or not."""
    root = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
