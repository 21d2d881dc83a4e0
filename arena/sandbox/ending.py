"""What is to be said of the end of a job: whose fault it was, and which limits it ran into.

The one thing to know: hitting a limit is an end by itself only where we or the kernel end the job for it
(wall, CPU, memory, output, a single file's size by signal). Where the kernel merely refuses, a good agent may
go on; so such a limit is the reason only when the agent then ended in failure. Refusals for open files and
for a file's size leave no trace outside the agent, and are not known at all.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from arena.sandbox.limits import Usage
from arena.sandbox.sandbox import EndReason, Exit, LimitName, Limits
from arena.sandbox.work_folder import Fill

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: bytes) -> str:
    """Output as text that is safe to show: no terminal escapes, control or direction-changing characters."""
    return _ESCAPES.sub("", text.decode("utf-8", "replace"))


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


def judged(
    reason: EndReason,
    *,
    report: Report | None,
    wall_s: float,
    limits: Limits,
    usage: Usage,
    streams: tuple[bytearray, bytearray],
    overflowed: bool,
    fill: Fill | None,
    monitored: bool = False,
) -> Exit:
    """The `Exit` of a job. `reason` is what ended the waiting: our own doing, or "exit".

    `report` None: the witness of the end died, which is our fault. `fill` None: nobody looked. `monitored`:
    the report is on a process that the agent cannot signal and that tells a signal to the agent by its exit
    code, so that a signal to itself came from the host.
    """
    stdout, stderr = (printable(bytes(stream)) for stream in streams)
    if report is None:
        return setup_error("the warden died without a report", wall_s=wall_s, stderr=stderr, leftovers=1)
    if reason == "setup_error":
        last_words = stderr.strip().splitlines()[-1:] or ["it said nothing"]
        detail = f"the sandbox did not come up (code {report.return_code}): {last_words[0]}"
        return setup_error(detail, wall_s=wall_s, stderr=stderr, leftovers=report.leftovers)
    if monitored and reason == "exit" and os.WIFSIGNALED(report.status) and not usage.out_of_memory_kills:
        detail = f"the sandbox was killed from outside (signal {os.WTERMSIG(report.status)})"
        return setup_error(detail, wall_s=wall_s, stderr=stderr, leftovers=report.leftovers)
    cpu_s = report.cpu_s if usage.cpu_s is None else usage.cpu_s
    hit = _hit(reason, report.return_code, cpu_s, limits, usage, overflowed, fill)
    code = report.return_code
    if reason == "exit":
        reason = next((name for name in hit if code != 0 or name in _EVEN_WITHOUT_FAILURE), reason)
    killed = reason in ("wall", "stopped") or code == 128 + signal.SIGKILL
    return Exit(
        reason=reason,
        return_code=code if reason == "exit" or (not killed and reason != "output") else None,
        wall_s=wall_s,
        cpu_s=cpu_s,
        peak_memory_bytes=usage.peak_memory_bytes or report.largest_process_bytes,
        stdout=stdout,
        stderr=stderr,
        leftovers=report.leftovers,
        detail=_detail(reason, code, limits),
        hit=hit,
    )


_EVEN_WITHOUT_FAILURE = ("cpu", "output")
"""Limits whose excess ends a job though its last process said that all was well."""


def _hit(
    reason: EndReason,
    code: int,
    cpu_s: float,
    limits: Limits,
    usage: Usage,
    overflowed: bool,
    fill: Fill | None,
) -> tuple[LimitName, ...]:
    """The limits that were surely run into; first those that end a job."""
    found: dict[LimitName, bool] = {
        "wall": reason == "wall",
        "memory": usage.out_of_memory_kills > 0 or reason == "memory",
        "cpu": reason == "cpu" or code == 128 + signal.SIGXCPU or cpu_s > limits.cpu_s,
        "output": overflowed,
        "file_size": code == 128 + signal.SIGXFSZ,
        "processes": usage.refused_processes > 0,
        "work_inodes": fill is not None and fill.inodes_full,
        "work_bytes": fill is not None and fill.bytes_full,
    }
    return tuple(name for name, is_hit in found.items() if is_hit)


def _detail(reason: EndReason, code: int, limits: Limits) -> str:
    after = f"ended with code {code} after"
    details: dict[EndReason, str] = {
        "exit": f"ended with code {code}",
        "stopped": "stopped after its last call",
        "wall": f"still running after {limits.wall_s:g} s",
        "cpu": f"used more than {limits.cpu_s:g} s of CPU",
        "memory": f"used more than {limits.memory_bytes >> 20} MiB of memory",
        "output": f"wrote more than {limits.output_bytes} bytes of output",
        "file_size": f"wrote a file of more than {limits.file_bytes} bytes",
        "processes": f"{after} it was refused more than {limits.processes} processes and threads",
        "work_inodes": f"{after} filling its work folder with {limits.work_inodes} files",
        "work_bytes": f"{after} filling its work folder with {limits.work_bytes} bytes",
    }
    return details[reason]
