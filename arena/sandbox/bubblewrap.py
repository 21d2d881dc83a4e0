"""The sandbox that contains foreign code: bubblewrap, a system-call filter, control groups and resource
limits.

The one thing to know: each layer closes what another leaves open, so none may go. As root, bubblewrap is run
under a uid of its own for each slot, for root inside it could remount the host's folders for writing, and the
kernel exempts root from process limits; the file system is a list of what is allowed in, never the host's
with holes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.appearance import HOSTNAME
from arena.sandbox.ending import setup_error
from arena.sandbox.execution import supervise
from arena.sandbox.inside import (
    AGENT_FILE,
    ENVIRONMENT,
    PYTHON_FILE,
    SHARED_MEMORY_BYTES,
    SOCKET,
    admit,
    command_inside,
)
from arena.sandbox.installation import ensure_bubblewrap
from arena.sandbox.launching import FIRST_DESCRIPTOR, READY, Launch
from arena.sandbox.limits import ControlGroup, Hierarchies, sweep_stale
from arena.sandbox.probe import Probe, probe_sandbox
from arena.sandbox.residue import residue
from arena.sandbox.sandbox import Exit, Job, Limits, SandboxUnavailable
from arena.sandbox.seccomp import filter_program
from arena.sandbox.slots import Slots
from arena.sandbox.staging import StagedPython
from arena.sandbox.work_folder import WorkFolder, sweep_work_folders

_FILTER, _SOURCE, _OPTIONS = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + 3)
"""Descriptors on which bubblewrap finds what it is given."""
AGENT_UID = 1000
"""Every agent's uid inside; on the host it is that of its slot."""

_SYSTEM_FOLDERS = (
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
)
"""Shared libraries and the dynamic linker; no programs."""


async def bubblewrap_sandbox(staged: StagedPython, *, install: bool = True) -> BubblewrapSandbox:
    """The backend with this host's bubblewrap. Raises SandboxUnavailable with what to do."""
    return BubblewrapSandbox(staged, await ensure_bubblewrap(install=install))


class BubblewrapSandbox:
    """`Sandbox` by bubblewrap: rootless as an ordinary user, a uid for each slot as root."""

    name = "bubblewrap"

    def __init__(self, staged: StagedPython, executable: Path) -> None:
        """Raises SandboxUnavailable on a machine without a system-call filter."""
        try:
            self._filter = filter_program()
        except NotImplementedError as error:
            raise SandboxUnavailable(f"{error}; run the validator on one of those") from error
        self._staged = staged
        self.executable = executable
        self._options = _options_of(executable)
        self._fixed = self._fixed_arguments()
        self._hierarchies = Hierarchies.of_this_host()
        self._slots = Slots(own_uid=os.geteuid() != 0)
        self._swept = False

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        """See `Sandbox.run`."""
        with self._slots.claim(slot) as uid:
            try:
                if not self._swept:
                    await asyncio.to_thread(_sweep, self._hierarchies)
                    self._swept = True
                place = await asyncio.to_thread(_Place.make, limits, self._hierarchies, uid)
            except OSError as error:
                return setup_error(f"{type(error).__name__}: {error}")
            ended: Exit | None = None
            try:
                ended = await self._run_in(place, job, limits, stop)
            except (OSError, SandboxUnavailable) as error:
                ended = setup_error(f"{type(error).__name__}: {error}")
            finally:
                left = await asyncio.shield(asyncio.to_thread(place.clear))
                if uid < 0 and ended is not None and ended.leftovers:
                    # Under our own uid no second look is possible, so the first one stands.
                    left = (*left, f"{ended.leftovers} processes")
                if left:
                    self._slots.quarantine(slot, uid, left)
            return dataclasses.replace(ended, leftovers=len(left))

    @property
    def quarantined(self) -> Mapping[int, str]:
        """See `Sandbox.quarantined`."""
        return self._slots.quarantined

    async def probe(self) -> Probe:
        """See `Sandbox.probe`."""
        return await probe_sandbox(self)

    async def _run_in(self, place: _Place, job: Job, limits: Limits, stop: asyncio.Event | None) -> Exit:
        admit(job.socket, place.uid)
        # Where a control group counts processes it is the one that refuses, and tells us so.
        counted = 0 if "pids" in place.group.enforced else limits.processes
        arguments = self._arguments(job, limits, place.work)
        contents = (self._filter, job.source, "\0".join(arguments).encode() + b"\0")
        with contextlib.ExitStack() as open_files:
            launch = Launch(
                command=[
                    *(str(self.executable), "--args", str(_OPTIONS), "--"),
                    *(PYTHON_FILE, "-I", "-S", "-B", "/support/start.py", str(READY), str(counted)),
                    *command_inside(job),
                ],
                environment={},
                uid=place.uid,
                descriptors=[open_files.enter_context(_memory_file(content)) for content in contents],
            )
            return await supervise(
                self._staged, launch, limits, place.group, stop, place.work, monitored=True
            )

    def _arguments(self, job: Job, limits: Limits, work: WorkFolder | None) -> list[str]:
        """Options for bubblewrap, passed by descriptor: a command line can be read from inside."""
        words = [*self._fixed, "--perms", "0444", "--file", str(_SOURCE), AGENT_FILE]
        if job.socket is not None:
            words += ["--ro-bind", str(job.socket.resolve()), SOCKET]
        if work is not None:
            # Shared memory lies in the same folder, so that it counts by the same bounds.
            words += ["--bind", str(work.path), "/work", "--bind", str(work.path), "/dev/shm"]  # noqa: S108
        else:
            words += [*self._size(limits.work_bytes), "--tmpfs", "/work"]
            words += [*self._size(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--symlink", "work", "/tmp"]  # noqa: S108
        words += ["--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/work", "--seccomp", str(_FILTER)]
        for name, value in {**job.environment, **ENVIRONMENT}.items():
            words += ["--setenv", name, value]
        return words

    def _fixed_arguments(self) -> list[str]:
        """The options that are the same for every job."""
        staged = self._staged
        words = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", HOSTNAME]
        words += ["--uid", str(AGENT_UID), "--gid", str(AGENT_UID), "--cap-drop", "ALL", "--clearenv"]
        if "--disable-userns" in self._options:
            # Since 0.8; before, the system-call filter alone forbids new user namespaces.
            words.append("--disable-userns")
        for folder in map(Path, _SYSTEM_FOLDERS):
            if folder.is_symlink():
                words += ["--symlink", str(folder.readlink()), str(folder)]
            elif folder.is_dir():
                words += ["--ro-bind", str(folder), str(folder)]
        words += ["--ro-bind", str(staged.support / "etc"), "/etc"]
        words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for file in sorted((staged.support / "proc").rglob("*")):
            inside = Path("/") / file.relative_to(staged.support)
            if file.is_file() and inside.exists():
                words += ["--ro-bind", str(file), str(inside)]
        words += ["--ro-bind", str(staged.support), "/support"]
        words += ["--ro-bind", str(staged.interpreter), "/python"]
        return [
            *words,
            "--ro-bind",
            str(staged.packages_folder),
            "/packages",
            "--ro-bind",
            str(staged.kit),
            "/kit",
        ]

    def _size(self, count: int) -> list[str]:
        # Before 0.7 a tmpfs is bounded by the control group's memory only.
        return ["--size", str(count)] if "--size" in self._options else []


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one job runs: its control group, its work folder, its uid on the host."""

    group: ControlGroup
    work: WorkFolder | None
    uid: int

    @classmethod
    def make(cls, limits: Limits, hierarchies: Hierarchies, uid: int) -> _Place:
        work = WorkFolder.mount(limits, uid)
        return cls(ControlGroup.create(limits, hierarchies), work, uid)

    def clear(self) -> tuple[str, ...]:
        """Take everything down, look whether anything is left, and say what."""
        left = self.group.destroy()
        if self.work is not None and not self.work.remove():
            left = (*left, f"work folder {self.work.path}")
        return (*left, *residue(self.uid, self.work.path.name if self.work else ""))


def _sweep(hierarchies: Hierarchies) -> None:
    sweep_stale(hierarchies)
    sweep_work_folders()


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    fd = os.memfd_create("sandbox")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


@functools.cache
def _options_of(executable: Path) -> str:
    """What this bubblewrap says it understands. Versions differ, and distributions patch."""
    try:
        return subprocess.run(
            [str(executable), "--help"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"{executable} does not run: {error}") from error
