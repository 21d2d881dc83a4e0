"""Runs one command under a warden and tells how it ended; both backends stand on this.

The one thing to know: two private pipes carry the truth. On the ready pipe `start.py` reports that everything
stands, on the status pipe the warden reports the end. Neither is ever open in the agent, so it can forge
nothing, and an end without the ready byte is a set-up error whatever the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from arena.sandbox.limits import ControlGroup, Usage, resource_limits
from arena.sandbox.sandbox import EndReason, Exit, Limits
from arena.sandbox.staging import StagedPython

SETUP_DEADLINE_S = 30.0
"""From the start to the ready byte; about 0.03 s on an idle machine, far more on one that swaps."""
TEARDOWN_DEADLINE_S = 15.0
"""For the warden to clear up; it gives itself 5 s."""
DRAIN_DEADLINE_S = 2.0
"""For what is still in the pipes once every writer is dead."""
CPU_POLL_S = 0.2
_CHUNK = 1 << 16
Result = TypeVar("Result")
_WARDEN = Path(__file__).with_name("warden.py")

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: bytes) -> str:
    """Output as text that is safe to show: no terminal escapes, control or direction-changing characters."""
    return _ESCAPES.sub("", text.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Launch:
    """What the warden is to start. `command` is the whole command; `ready_fd` is written into it already.

    `descriptors` are passed on beside the ready pipe. `uid` -1 keeps our own. The command starts in `folder`.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    ready_fd: int
    uid: int = -1
    descriptors: Sequence[int] = ()
    folder: Path = Path("/")


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


@dataclass(frozen=True, slots=True)
class Report:
    """The warden's word on the end."""

    status: int
    cpu_s: float
    largest_process_bytes: int
    leftovers: int

    @classmethod
    def parse(cls, line: bytes) -> Report | None:
        """The report, or None when the warden died before it could make one."""
        words = line.split()
        if len(words) != 4:
            return None
        return cls(int(words[0]), float(words[1]), int(words[2]), int(words[3]))

    @property
    def return_code(self) -> int:
        """As the shell counts: 128 + n after signal n."""
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code


def setup_error(detail: str, *, wall_s: float = 0.0, stderr: str = "", leftovers: int = 0) -> Exit:
    """The `Exit` of a job that never began, or that we broke."""
    return Exit("setup_error", None, wall_s, 0.0, 0, "", stderr, leftovers, detail)


async def supervise(
    staged: StagedPython,
    launch: Launch,
    ready_read: int,
    limits: Limits,
    group: ControlGroup,
    stop: asyncio.Event | None,
) -> Exit:
    """Run `launch` until it ends or must be ended. Takes over `ready_read`, the caller keeps every other
    descriptor.

    Raises OSError when the warden cannot be started.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    status_read, status_write = os.pipe()
    # Before the warden exists: from its start on, nothing may come between us and the clean-up below.
    ready, ready_transport = await _reader(loop, ready_read)
    status, status_transport = await _reader(loop, status_read)
    rlimits = resource_limits(limits, group.enforced)
    try:
        process = await asyncio.create_subprocess_exec(
            str(staged.python),
            "-I",
            "-S",
            str(_WARDEN),
            str(status_write),
            str(os.getpid()),
            str(launch.uid),
            ",".join(f"{number}={soft}:{hard}" for number, (soft, hard) in rlimits.items()),
            ":".join(map(str, group.entrances)),
            *launch.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(launch.environment),
            cwd=launch.folder,
            pass_fds=[launch.ready_fd, status_write, *launch.descriptors],
            start_new_session=True,
        )
    except BaseException:
        ready_transport.close()
        status_transport.close()
        raise
    finally:
        os.close(status_write)
        os.close(launch.ready_fd)
    assert process.stdout is not None
    assert process.stderr is not None
    output = Output(limits.output_bytes)
    drains = [
        asyncio.create_task(output.drain(process.stdout, 0)),
        asyncio.create_task(output.drain(process.stderr, 1)),
    ]
    ended = asyncio.create_task(status.read())
    try:
        signal_seen = await _first_signal(ready, ended)
        if signal_seen == b"R":
            began = time.monotonic()
            reason = await until_end(ended, limits, group, output, stop)
        else:
            reason = "setup_error"
        wall_s = time.monotonic() - began
        _terminate(process, ended)
        report_line = await _within(ended, TEARDOWN_DEADLINE_S)
        # A second byte says that the command could not be executed after all.
        refused = await _within(asyncio.ensure_future(ready.read()), DRAIN_DEADLINE_S) == b"E"
        await _within(asyncio.gather(*drains), DRAIN_DEADLINE_S)
    finally:
        _terminate(process, ended)
        with contextlib.suppress(TimeoutError):
            await asyncio.shield(_within_or_kill(process))
        for task in (*drains, ended):
            task.cancel()
        for transport in (ready_transport, status_transport):
            transport.close()
    return verdict(
        reason="setup_error" if refused else reason,
        report=Report.parse(report_line or b""),
        wall_s=wall_s,
        limits=limits,
        usage=group.usage(),
        output=output,
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


def verdict(
    *,
    reason: EndReason,
    report: Report | None,
    wall_s: float,
    limits: Limits,
    usage: Usage,
    output: Output,
) -> Exit:
    """What is to be said of an end. `report` None: the witness of the end died, which is our fault."""
    stdout, stderr = (printable(bytes(stream)) for stream in output.streams)
    if report is None:
        return setup_error("the warden died without a report", wall_s=wall_s, stderr=stderr, leftovers=1)
    if reason == "setup_error":
        last_words = stderr.strip().splitlines()[-1:] or ["it said nothing"]
        detail = f"the sandbox did not come up (code {report.return_code}): {last_words[0]}"
        return setup_error(detail, wall_s=wall_s, stderr=stderr, leftovers=report.leftovers)
    cpu_s = report.cpu_s if usage.cpu_s is None else usage.cpu_s
    if reason == "exit":
        if usage.out_of_memory_kills and report.return_code != 0:
            reason = "memory"
        elif report.return_code == 128 + signal.SIGXCPU or cpu_s > limits.cpu_s:
            reason = "cpu"
        elif output.overflowed.is_set():
            reason = "output"
    ended_by_itself = reason in ("exit", "memory", "cpu") and report.return_code != 128 + signal.SIGKILL
    details = {
        "exit": f"ended with code {report.return_code}",
        "wall": f"still running after {limits.wall_s:g} s",
        "cpu": f"used more than {limits.cpu_s:g} s of CPU",
        "memory": f"used more than {limits.memory_bytes >> 20} MiB of memory",
        "output": f"wrote more than {limits.output_bytes} bytes of output",
        "stopped": "stopped after its last call",
    }
    return Exit(
        reason=reason,
        return_code=report.return_code if reason == "exit" or ended_by_itself else None,
        wall_s=wall_s,
        cpu_s=cpu_s,
        peak_memory_bytes=usage.peak_memory_bytes or report.largest_process_bytes,
        stdout=stdout,
        stderr=stderr,
        leftovers=report.leftovers,
        detail=details[reason],
    )


async def _reader(
    loop: asyncio.AbstractEventLoop, fd: int
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader, transport


def _terminate(warden: asyncio.subprocess.Process, ended: asyncio.Task[bytes]) -> None:
    # Not by the process's own method, which polls, and so takes the exit code from under the event loop.
    # Until the status pipe ends the warden lives, so the id is surely its own.
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.kill(warden.pid, signal.SIGTERM)


async def _within(awaitable: asyncio.Future[Result], deadline_s: float) -> Result | None:
    """The result, or None when it did not come in time."""
    await asyncio.wait({awaitable}, timeout=deadline_s)
    return awaitable.result() if awaitable.done() and not awaitable.cancelled() else None


async def _within_or_kill(process: asyncio.subprocess.Process) -> None:
    """Wait for the warden; one that does not end is killed, and its sandbox dies with it."""
    try:
        await asyncio.wait_for(process.wait(), TEARDOWN_DEADLINE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.wait(), TEARDOWN_DEADLINE_S)
