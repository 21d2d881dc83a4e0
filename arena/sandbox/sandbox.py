"""The sandbox as the rest of the program sees it: a job goes in, an `Exit` comes out.

The one thing to know: an `Exit` separates whose fault the end was. `setup_error` is always ours (the sandbox
could not be built, or broke before the agent's first instruction); every other reason describes the agent.
What the agent printed is kept for a human to read, and is never evidence of anything.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from arena.sandbox.probe import Probe
    from arena.sandbox.staging import StagedPython

logger = logging.getLogger(__name__)

PYTHON = "{python}"
"""In `Job.command`: stands for the agents' Python, wherever the sandbox has it."""
AGENT = "{agent}"
"""In `Job.command`: stands for the file that holds `Job.source`, wherever the sandbox has it."""
SCREENING = "{screening}"
"""In `Job.command`: stands for the program that reads a submission; `AGENT` is then that submission."""
PLAIN_PYTHON = (PYTHON, "-I", "-B", AGENT)
"""A `Job.command` that runs the source as a bare script, without the agent kit."""

LimitName = Literal[
    "wall",
    "cpu",
    "memory",
    "processes",
    "file_size",
    "open_files",
    "work_bytes",
    "work_inodes",
    "output",
    "connections",
]
"""Every limit of an episode; `arena.sandbox.terms` says of each how it binds and what hitting it means."""
EndReason = Literal["exit", "stopped", "setup_error"] | LimitName


BackendName = Literal["auto", "bubblewrap", "docker"]
BACKENDS: tuple[Literal["bubblewrap", "docker"], ...] = ("bubblewrap", "docker")
"""From the strongest on: behind bubblewrap there is no daemon that runs as root."""


class SandboxUnavailable(RuntimeError):
    """Foreign code cannot be contained here; the message says what to install or do."""


class SlotQuarantined(RuntimeError):
    """Something was left behind in this slot, so that it is given to nobody any more."""

    def __init__(self, slot: int, why: str) -> None:
        super().__init__(f"slot {slot} is quarantined: {why}")
        self.slot = slot
        self.why = why


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one submission.

    `source` is mounted read-only as the agent's file; `socket` is the recorder's Unix socket on the host,
    None where the job has nobody to talk to. With `command` None the agent kit's launcher runs the agent.
    `environment` adds variables; no secret
    belongs in it.
    """

    source: bytes
    socket: Path | None
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(
                    f"environment variable {name!r} cannot be passed: a name is not empty, has no '='"
                )
        if self.command is not None and (not self.command or any("\0" in part for part in self.command)):
            raise ValueError("a command has at least one part, and no NUL in any")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may use: seconds and bytes, summed over all its processes unless said otherwise.

    `wall_s` counts from the agent's first instruction, so that a slow set-up is not the agent's loss.
    `processes` counts threads too. `file_bytes` is for one file, `open_files` for one process, `output_bytes`
    for stdout and stderr together. `work_inodes` counts files and folders in the work folder.
    """

    wall_s: float
    cpu_s: float
    memory_bytes: int
    processes: int
    file_bytes: int
    work_bytes: int
    output_bytes: int
    open_files: int
    work_inodes: int = 4096

    def __post_init__(self) -> None:
        if self.wall_s <= 0 or self.cpu_s <= 0:
            raise ValueError("wall_s and cpu_s must be above 0 seconds")
        if self.memory_bytes < 32 << 20:
            raise ValueError("memory_bytes must be at least 32 MiB, because Python itself needs about 15")
        if self.processes < 8:
            raise ValueError("processes must be at least 8, because the sandbox's own count among them")
        if self.open_files < 16:
            raise ValueError("open_files must be at least 16, because importing a package opens several")
        if self.work_inodes < 16:
            raise ValueError("work_inodes must be at least 16, because a library's scratch files are several")
        if self.file_bytes < 0 or self.work_bytes < 1 << 16 or self.output_bytes < 1:
            raise ValueError("file_bytes must be >= 0, work_bytes >= 64 KiB, output_bytes >= 1")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a job ended.

    `return_code` follows the shell: 128 + n after signal n; None when the job was killed by us or never
    began. `cpu_s` and `peak_memory_bytes` are of all processes together where control groups are at hand,
    else what the kernel tells of ended children. `leftovers` is the number of things that outlived the
    teardown (0 unless something is badly wrong). `hit` names the limits that the job is known to have run
    into. Where the kernel only refuses (no more processes, no room), that is no end by itself: it is the
    reason only of an agent that ended in failure then. `stdout` and `stderr` are cut and cleaned: for a
    log, never evidence.
    """

    reason: EndReason
    return_code: int | None
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    stdout: str
    stderr: str
    leftovers: int
    detail: str
    hit: tuple[LimitName, ...] = ()


class Sandbox(Protocol):
    """Runs jobs of people we do not know, one at a time in each of the caller's slots."""

    @property
    def name(self) -> str:
        """A short name for logs and reports."""

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        """Run `job` to its end and tear everything down.

        Setting `stop` ends the job with reason `stopped`: the agent had made its last call, which is no
        fault. Raises ValueError when the slot is taken, SlotQuarantined when it is out of use, and
        SandboxUnavailable when this host has no uid left for it; anything else that breaks on our side is an
        `Exit` with `setup_error`.
        """

    @property
    def quarantined(self) -> Mapping[int, str]:
        """The slots that are out of use, and what was left in each."""

    async def probe(self) -> Probe:
        """Run a canary that tries what an agent must not be able to do, and say what held."""


async def choose(
    staged: StagedPython, *, backend: BackendName = "auto", unsafe: bool = False, install: bool = True
) -> Sandbox:
    """The sandbox named by `backend`; "auto" is the strongest whose probe passes here.

    `install`: whether bubblewrap may be installed where it is missing and we are root. Raises
    SandboxUnavailable, saying what each one lacks, unless `unsafe`: then a plain subprocess runs the agents,
    which is fit for your own agents only.
    """
    # Imported here because the backends are built on this module's types.
    from arena.sandbox.bubblewrap import bubblewrap_sandbox
    from arena.sandbox.docker import docker_sandbox
    from arena.sandbox.installation import advice
    from arena.sandbox.subprocess_backend import SubprocessSandbox

    found: list[str] = []
    for name in BACKENDS if backend == "auto" else (backend,):
        try:
            sandbox: Sandbox = (
                await bubblewrap_sandbox(staged, install=install)
                if name == "bubblewrap"
                else await docker_sandbox(staged)
            )
            probe = await sandbox.probe()
        except SandboxUnavailable as error:
            found.append(f"{name}: {error}")
            continue
        if probe.ok:
            return sandbox
        failed = "; ".join(f"{check.name}: {check.detail}" for check in probe.checks if not check.ok)
        found.append(f"{name} is here, but its probe failed ({failed}). {advice(name)}")
    reason = " | ".join(found)
    if not unsafe:
        raise SandboxUnavailable(
            f"No sandbox for foreign code: {reason}. Repair it, or pass --unsafe-no-sandbox to run agents "
            "you wrote yourself without one."
        )
    warning = (
        f"RUNNING WITHOUT A SANDBOX ({reason}). Every agent can read this account's files and keys, and "
        "reach the network. Run only agents you wrote yourself."
    )
    logger.warning(warning)
    print(warning, file=sys.stderr)  # noqa: T201 - must be seen even where logging is off
    return SubprocessSandbox(staged)
