"""How a job's limits reach the kernel: resource limits for each process, a control group for all together.

The one thing to know: resource limits always apply, but bind one process (or one file) each; only a control
group bounds the sum. Where no control group can be made (an ordinary user, a container without the file
system mounted for writing) `ControlGroup.enforced` says what is missing, and the address space is limited
instead.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.sandbox import Limits

FOLDER = "arena-sandbox"
"""Name of the group, at the root of each hierarchy, that holds one group a job."""
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
CPU_PERIOD_US = 100_000
"""One CPU for each job: its quota equals the period, so a job cannot starve its neighbours."""
SANDBOX_PROCESSES = 2
"""Processes of the sandbox itself that are counted with the agent's."""
_REMOVALS = 200
"""Tries to remove a group, over 2 s."""
ADDRESS_SPACE_ROOM = 512 << 20
"""Bytes a process may reserve beyond its memory, for stacks and arenas it never touches."""

_sequence = itertools.count()


def resource_limits(limits: Limits, enforced: frozenset[str]) -> dict[int, tuple[int, int]]:
    """Soft and hard resource limits for every process of a job, by RLIMIT_* number.

    CPU has a second between soft and hard, so that the end is told by SIGXCPU. The address space is limited
    only where no control group bounds memory, because libraries reserve far more than they touch.
    """
    cpu = max(1, round(limits.cpu_s))
    chosen = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        resource.RLIMIT_NOFILE: (limits.open_files, limits.open_files),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_SIGPENDING: (64, 64),
        resource.RLIMIT_STACK: (8 << 20, 8 << 20),
    }
    if "memory" not in enforced:
        room = limits.memory_bytes + ADDRESS_SPACE_ROOM
        chosen[resource.RLIMIT_AS] = (room, room)
    return {number: _below_own_hard(number, pair) for number, pair in chosen.items()}


def _below_own_hard(number: int, pair: tuple[int, int]) -> tuple[int, int]:
    own = resource.getrlimit(number)[1]
    if own == resource.RLIM_INFINITY:
        return pair
    return min(pair[0], own), min(pair[1], own)


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where control groups live: one folder for each controller (v1), or one for all (v2)."""

    unified: bool
    folders: dict[str, Path]

    @classmethod
    def of_this_host(cls, mounts: Path = Path("/proc/self/mounts")) -> Hierarchies:
        """The hierarchies with a controller we use; none where nothing is mounted."""
        folders: dict[str, Path] = {}
        for line in mounts.read_text().splitlines():
            _, where, kind, options, *_ = line.split(" ")
            if kind == "cgroup2":
                offered = _read(Path(where) / "cgroup.controllers").split()
                if "memory" in offered and "pids" in offered:
                    return cls(unified=True, folders={"unified": Path(where)})
            elif kind == "cgroup":
                for controller in set(options.split(",")).intersection(CONTROLLERS):
                    folders.setdefault(controller, Path(where))
        return cls(unified=False, folders=folders)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group used; None where the kernel does not tell. `refused_processes` counts failed forks."""

    cpu_s: float | None
    peak_memory_bytes: int | None
    out_of_memory_kills: int
    refused_processes: int = 0


class ControlGroup:
    """The control group of one job, over every hierarchy that could be written."""

    def __init__(self, unified: bool, folders: dict[str, Path]) -> None:
        self.unified = unified
        self.folders = folders

    @classmethod
    def create(cls, limits: Limits, hierarchies: Hierarchies) -> ControlGroup:
        """Make a group with `limits`. Controllers that cannot be had are left out, never an error."""
        name = f"{own_identity()}-{next(_sequence)}"
        folders: dict[str, Path] = {}
        for controller, mount in hierarchies.folders.items():
            parent = mount / FOLDER
            try:
                parent.mkdir(exist_ok=True)
                if hierarchies.unified:
                    for level in (mount, parent):
                        (level / "cgroup.subtree_control").write_text("+memory +pids +cpu")
                (parent / name).mkdir()
            except OSError:
                continue
            folders[controller] = parent / name
        group = cls(hierarchies.unified, folders)
        for controller, settings in group._settings(limits).items():
            for file, value, required in settings:
                try:
                    (folders[controller] / file).write_text(value)
                except OSError:
                    if required:
                        _remove(folders.pop(controller))
                        break
        return group

    @classmethod
    def around(cls, pid: int, hierarchies: Hierarchies) -> ControlGroup:
        """The group that a process is in, made by somebody else: to be read, and never to be destroyed."""
        folders: dict[str, Path] = {}
        for line in _read(Path(f"/proc/{pid}/cgroup")).splitlines():
            _, controllers, place = line.split(":", 2)
            for controller in controllers.split(",") if controllers else ("unified",):
                if mount := hierarchies.folders.get(controller):
                    folder = mount / place.lstrip("/")
                    if folder != mount and folder.is_dir():
                        folders[controller] = folder
        return cls(hierarchies.unified, folders)

    @property
    def enforced(self) -> frozenset[str]:
        """The controllers that bind the job: any of memory, pids, cpu, cpuacct."""
        if self.unified:
            return frozenset(CONTROLLERS) if self.folders else frozenset()
        return frozenset(self.folders)

    @property
    def entrances(self) -> list[Path]:
        """Files into which a process writes 0 to join."""
        return [folder / "cgroup.procs" for folder in _distinct(self.folders)]

    def _settings(self, limits: Limits) -> dict[str, list[tuple[str, str, bool]]]:
        memory, processes = str(limits.memory_bytes), str(limits.processes + SANDBOX_PROCESSES)
        if self.unified:
            chosen = {
                "unified": [
                    ("memory.max", memory, True),
                    ("memory.swap.max", "0", False),
                    ("pids.max", processes, True),
                    ("cpu.max", f"{CPU_PERIOD_US} {CPU_PERIOD_US}", False),
                ]
            }
        else:
            chosen = {
                "memory": [
                    ("memory.limit_in_bytes", memory, True),
                    ("memory.memsw.limit_in_bytes", memory, False),
                    ("memory.swappiness", "0", False),
                ],
                "pids": [("pids.max", processes, True)],
                "cpu": [
                    ("cpu.cfs_period_us", str(CPU_PERIOD_US), False),
                    ("cpu.cfs_quota_us", str(CPU_PERIOD_US), True),
                ],
            }
        return {name: settings for name, settings in chosen.items() if name in self.folders}

    def cpu_seconds(self) -> float | None:
        """CPU time of all processes of the job so far; None without the controller."""
        if self.unified and self.folders:
            found = re.search(r"^usage_usec (\d+)", _read(self.folders["unified"] / "cpu.stat"), re.MULTILINE)
            return int(found[1]) / 1e6 if found else None
        if "cpuacct" in self.folders:
            text = _read(self.folders["cpuacct"] / "cpuacct.usage").strip()
            return int(text) / 1e9 if text else None
        return None

    def usage(self) -> Usage:
        """Totals so far."""
        peak, kills = "", ""
        if self.unified and self.folders:
            peak = _read(self.folders["unified"] / "memory.peak")
            kills = _read(self.folders["unified"] / "memory.events")
        elif "memory" in self.folders:
            peak = _read(self.folders["memory"] / "memory.max_usage_in_bytes")
            kills = _read(self.folders["memory"] / "memory.oom_control")
        pids = self.folders.get("unified" if self.unified else "pids")
        forks = _read(pids / "pids.events") if pids else ""
        return Usage(
            cpu_s=self.cpu_seconds(),
            peak_memory_bytes=int(peak) if peak.strip() else None,
            out_of_memory_kills=_counted("oom_kill", kills),
            refused_processes=_counted("max", forks),
        )

    def members(self) -> set[int]:
        """Process ids in the group, as this host numbers them."""
        return {int(pid) for entrance in self.entrances for pid in _read(entrance).split()}

    def destroy(self, deadline_s: float = 5.0) -> tuple[str, ...]:
        """Kill what is left until the group is empty, remove it, and return what is left in spite of it.

        Blocks for at most about `deadline_s` seconds; call it outside the event loop.
        """
        left = [f"process {pid}" for pid in sorted(_empty(_distinct(self.folders), deadline_s))]
        return (*left, *(f"control group {f}" for f in _distinct(self.folders) if not _remove(f)))


def sweep_stale(hierarchies: Hierarchies) -> int:
    """Kill and remove the groups of owners that died without doing so; returns how many there were.

    An owner is known by PID namespace, id and start time, so that neither a recycled id nor another
    container's validator is taken for a dead one.
    """
    stale: dict[str, list[Path]] = {}
    for mount in _distinct(hierarchies.folders):
        for folder in _folders_in(mount / FOLDER):
            found = re.fullmatch(r"(\d+-\d+-\d+)-\d+", folder.name)
            if found and not alive(found[1]):
                stale.setdefault(folder.name, []).append(folder)
    for folders in stale.values():
        _empty(folders, deadline_s=5.0)
        for folder in folders:
            _remove(folder)
    return len(stale)


def own_identity() -> str:
    """This process, among all that were and are on this host: it marks what we make, for who clears up."""
    return _process_identity(os.getpid())


def alive(identity: str) -> bool:
    """Whether the process of that `own_identity` may still live: not surely dead, that is."""
    namespace, pid, _ = identity.split("-")
    return namespace != own_identity().split("-")[0] or _process_identity(int(pid)) == identity


def _process_identity(pid: int) -> str:
    """PID namespace, process id and start time, joined by '-'; empty when there is no such process."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    if not stat:
        return ""
    started = stat.rpartition(")")[2].split()[19]
    return f"{Path('/proc/self/ns/pid').stat().st_ino}-{pid}-{started}"


def _counted(name: str, events: str) -> int:
    found = re.search(rf"^{name} (\d+)", events, re.MULTILINE)
    return int(found[1]) if found else 0


def _empty(folders: list[Path], deadline_s: float) -> set[int]:
    deadline = time.monotonic() + deadline_s
    while True:
        members: set[int] = set()
        for folder in folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1")  # absent in v1
            members |= {int(pid) for pid in _read(folder / "cgroup.procs").split()}
        if not members or time.monotonic() > deadline:
            return members
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, 9)
        time.sleep(0.005)


def _remove(folder: Path) -> bool:
    # The kernel frees a group a moment after its last process.
    pause_s = 0.0002
    for _ in range(_REMOVALS):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)
        else:
            return True
    return False


def _distinct(folders: dict[str, Path]) -> list[Path]:
    return list(dict.fromkeys(folders.values()))


def _folders_in(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from [entry for entry in folder.iterdir() if entry.is_dir()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
