"""Runs one command under a warden and tells how it ended; both backends stand on this.

The one thing to know: two private lines carry the truth. On the ready pipe `start.py` reports that everything
stands, on the control socket the warden reports the end. Neither is ever open in the agent, so it can forge
nothing, and an end without the ready byte is a set-up error whatever the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from dataclasses import dataclass, field
from typing import TypeVar

from arena.sandbox.ending import Report, judged
from arena.sandbox.launching import Launch, launcher_of
from arena.sandbox.limits import ControlGroup, resource_limits
from arena.sandbox.sandbox import EndReason, Exit, Limits
from arena.sandbox.staging import StagedPython
from arena.sandbox.work_folder import WorkFolder

SETUP_DEADLINE_S = 30.0
"""From the start to the ready byte; about 0.03 s on an idle machine, far more on one that swaps."""
TEARDOWN_DEADLINE_S = 15.0
"""For the warden to clear up; it gives itself 5 s."""
DRAIN_DEADLINE_S = 2.0
"""For what is still in the pipes once every writer is dead."""
CPU_POLL_S = 0.2
_CHUNK = 1 << 16
Result = TypeVar("Result")


@dataclass(slots=True)
class Output:
    """Both output streams of the job, together bounded by `limit` bytes."""

    limit: int
    total: int = 0
    streams: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    overflowed: asyncio.Event = field(default_factory=asyncio.Event)

    async def drain(self, reader: asyncio.StreamReader, stream: int) -> None:
        """Read to the end; what is beyond the limit is dropped, never left to block a writer."""
        while chunk := await reader.read(_CHUNK):
            self.take(stream, chunk)

    def take(self, stream: int, chunk: bytes) -> None:
        """Keep what fits of a piece of stdout (0) or stderr (1)."""
        self.streams[stream].extend(chunk[: max(0, self.limit - self.total)])
        self.total += len(chunk)
        if self.total > self.limit:
            self.overflowed.set()


async def supervise(
    staged: StagedPython,
    launch: Launch,
    limits: Limits,
    group: ControlGroup,
    stop: asyncio.Event | None,
    work: WorkFolder | None = None,
    *,
    monitored: bool = False,
) -> Exit:
    """Run `launch` until it ends or must be ended. Its descriptor `READY` is made here.
    `work` is looked at when the job has ended. `monitored`: see `judged`.

    Raises OSError when the command's warden cannot be started.
    """
    began = time.monotonic()
    output = Output(limits.output_bytes)
    rlimits = resource_limits(limits, group.enforced)
    async with contextlib.AsyncExitStack() as stack:
        readers, theirs = [], []
        for _ in range(3):
            reader, write_end = await _pipe(stack)
            readers.append(reader)
            theirs.append(write_end)
        ours, control = socket.socketpair()
        stack.callback(control.close)
        answers, orders = await asyncio.open_connection(sock=ours)
        stack.callback(orders.close)
        stdout, stderr, ready = readers
        # From here on, nothing may come between us and the clean-up below.
        await launcher_of(staged).start(launch, rlimits, group.entrances, (control.fileno(), *theirs))
        control.close()
        for fd in theirs:
            os.close(fd)
        theirs.clear()
        tasks = [
            asyncio.create_task(output.drain(stdout, 0)),
            asyncio.create_task(output.drain(stderr, 1)),
        ]
        ended = asyncio.create_task(answers.read())
        try:
            if await _first_signal(ready, ended) == b"R":
                began = time.monotonic()
                reason = await until_end(ended, limits, group, output, stop)
            else:
                reason = "setup_error"
            wall_s = time.monotonic() - began
            _order_the_end(orders)
            report_line = await _within(ended, TEARDOWN_DEADLINE_S)
            # A second byte says that the command could not be executed after all.
            refused = await _within(asyncio.ensure_future(ready.read()), DRAIN_DEADLINE_S) == b"E"
            await _within(asyncio.gather(*tasks), DRAIN_DEADLINE_S)
        finally:
            _order_the_end(orders)
            await asyncio.shield(asyncio.wait({ended}, timeout=TEARDOWN_DEADLINE_S))
            for task in (*tasks, ended):
                task.cancel()
    return judged(
        "setup_error" if refused else reason,
        report=Report.parse(report_line or b""),
        wall_s=wall_s,
        limits=limits,
        usage=group.usage(),
        streams=output.streams,
        overflowed=output.overflowed.is_set(),
        fill=None if work is None else work.fill(),
        monitored=monitored,
    )


async def _first_signal(ready: asyncio.StreamReader, ended: asyncio.Task[bytes]) -> bytes:
    """b"R" once the sandbox stands; b"" when it ended or took too long before that."""
    first = asyncio.create_task(ready.read(1))
    try:
        await asyncio.wait({first, ended}, timeout=SETUP_DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            # The pipe's writers are all dead by the time of the report, so this cannot wait.
            await asyncio.wait({first}, timeout=1.0 if ended.done() else 0.0)
        return first.result() if first.done() else b""
    finally:
        first.cancel()


async def until_end(
    ended: asyncio.Task[bytes] | asyncio.Task[None],
    limits: Limits,
    group: ControlGroup,
    output: Output,
    stop: asyncio.Event | None,
) -> EndReason:
    """Wait for the end, or for the first reason to make one."""
    deadline = time.monotonic() + limits.wall_s
    overflowed = asyncio.create_task(output.overflowed.wait())
    stopped = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "wall"
            await asyncio.wait(
                {ended, overflowed, stopped},
                timeout=min(left, CPU_POLL_S),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if ended.done():
                return "exit"
            if stopped.done():
                return "stopped"
            if overflowed.done():
                return "output"
            if (group.cpu_seconds() or 0.0) > limits.cpu_s:
                return "cpu"
    finally:
        overflowed.cancel()
        stopped.cancel()


async def _pipe(stack: contextlib.AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe: its end to read, which the stack closes, and its end to write, which the caller closes."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    file = os.fdopen(read_end, "rb", buffering=0)
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
    except BaseException:
        file.close()
        os.close(write_end)
        raise
    stack.callback(transport.close)
    return reader, write_end


def _order_the_end(orders: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, RuntimeError):  # it has ended
        orders.write_eof()


async def _within(awaitable: asyncio.Future[Result], deadline_s: float) -> Result | None:
    """The result, or None when it did not come in time."""
    await asyncio.wait({awaitable}, timeout=deadline_s)
    return awaitable.result() if awaitable.done() and not awaitable.cancelled() else None
