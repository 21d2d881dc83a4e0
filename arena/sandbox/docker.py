"""The sandbox that contains foreign code in a Docker container: for hosts where bubblewrap may not work.

The one thing to know: Docker's own profile leaves open what an agent has no use for (by version AF_VSOCK,
io_uring, 32-bit calls), so `boot.py` adds our filter to it from inside before the agent's first instruction.
As with bubblewrap each slot has a uid of its own, and there is no network but the recorder's socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import resource
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arena.sandbox.appearance import BLANK, CONSTANTS, HOSTNAME
from arena.sandbox.ending import Report, judged, printable, setup_error
from arena.sandbox.engine import Engine, EngineError, engine_socket
from arena.sandbox.execution import DRAIN_DEADLINE_S, SETUP_DEADLINE_S, Output, until_end
from arena.sandbox.image import BOOT, FILTER, ensure_image
from arena.sandbox.inside import (
    AGENT_FILE,
    ENVIRONMENT,
    PYTHON_FILE,
    SHARED_MEMORY_BYTES,
    SHARED_MEMORY_FILES,
    SOCKET,
    admit,
    command_inside,
)
from arena.sandbox.limits import (
    ControlGroup,
    Hierarchies,
    Usage,
    alive,
    own_identity,
    resource_limits,
)
from arena.sandbox.probe import Probe, probe_sandbox
from arena.sandbox.residue import residue
from arena.sandbox.sandbox import EndReason, Exit, Job, Limits, SandboxUnavailable
from arena.sandbox.slots import Slots
from arena.sandbox.staging import StagedPython, socket_folder
from arena.sandbox.work_folder import Fill

_NO_SUCH = 404
_REPORT_WORDS = 5
_ROOM = 2
"""By how many the uid's own limit of processes lies above the group's: the group tells when it refuses."""
LABEL = "arena.sandbox.owner"
"""Its value says which process a container belongs to: what is left of a dead one is removed."""
_READY = "/run/arena/ready.sock"
_ULIMITS = {
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_MEMLOCK: "memlock",
    resource.RLIMIT_MSGQUEUE: "msgqueue",
    resource.RLIMIT_SIGPENDING: "sigpending",
    resource.RLIMIT_STACK: "stack",
}
_REPLACEABLE = frozenset({"cpuinfo", "loadavg", "meminfo", "stat", "uptime"})
"""Files of /proc that the engine allows to be replaced; the others that we replace are made empty."""
_MASKED = (
    *("/proc/acpi", "/proc/asound", "/proc/bus", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_stats", "/sys"),
    *(f"/proc/{name}" for name in (*CONSTANTS, *BLANK) if name not in _REPLACEABLE),
)
"""What the engine masks by default, and what else would tell one host from another."""

_sequence = itertools.count()


async def docker_sandbox(staged: StagedPython) -> DockerSandbox:
    """The backend on this host's engine, with its image. Raises SandboxUnavailable with what to do."""
    socket = engine_socket()
    if socket is None or not socket.is_socket():
        where = os.environ.get("DOCKER_HOST") or "/var/run/docker.sock"
        raise SandboxUnavailable(
            f"no Docker engine listens at {where}: install and start it (apt-get install docker.io), or set "
            "DOCKER_HOST=unix:///path/to/docker.sock"
        )
    return DockerSandbox(staged, socket, await asyncio.to_thread(ensure_image, staged, socket))


@dataclass(slots=True)
class _Container:
    """One container and what it tells us."""

    name: str
    folder: Path
    output: Output
    group: ControlGroup = field(default_factory=lambda: ControlGroup(unified=False, folders={}))
    ready: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class DockerSandbox:
    """`Sandbox` by Docker: a container for each job, from an image named by its content address."""

    name = "docker"

    def __init__(self, staged: StagedPython, socket: Path, image: str) -> None:
        """Raises SandboxUnavailable when `image` is not a content address."""
        if not image.startswith("sha256:"):
            raise SandboxUnavailable(f"{image} is not a digest: a tag may mean another image tomorrow")
        self._staged = staged
        self._socket = socket
        self.image = image
        self._hierarchies = Hierarchies.of_this_host()
        self._slots = Slots(own_uid=False)
        self._swept = False

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        """See `Sandbox.run`."""
        with self._slots.claim(slot) as uid:
            try:
                async with Engine(self._socket) as engine:
                    if not self._swept:
                        await _sweep(engine)
                        self._swept = True
                    return await self._run_in(engine, job, limits, slot, uid, stop)
            except (OSError, SandboxUnavailable, EngineError) as error:
                return setup_error(f"{type(error).__name__}: {error}")

    @property
    def quarantined(self) -> Mapping[int, str]:
        """See `Sandbox.quarantined`."""
        return self._slots.quarantined

    async def probe(self) -> Probe:
        """See `Sandbox.probe`."""
        return await probe_sandbox(self)

    async def _run_in(
        self, engine: Engine, job: Job, limits: Limits, slot: int, uid: int, stop: asyncio.Event | None
    ) -> Exit:
        admit(job.socket, uid)
        folder = socket_folder("container-")
        name = f"arena-{own_identity()}-{next(_sequence)}-{secrets.token_hex(4)}"
        container = _Container(name, folder, Output(limits.output_bytes))
        left: tuple[str, ...] = ()
        try:
            async with _awaiting(container, uid):
                source = folder / "agent.py"
                source.write_bytes(job.source)
                source.chmod(0o444)
                try:
                    body = self._creation(container, job, limits, uid)
                    await engine.ask("POST", "/containers/create", body, name=name)
                    ended = await self._started(engine, container, limits, stop)
                finally:
                    left = await asyncio.shield(_cleared(engine, name, uid))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if left:
                self._slots.quarantine(slot, uid, left)
        return dataclasses.replace(ended, leftovers=len(left))

    async def _started(
        self, engine: Engine, container: _Container, limits: Limits, stop: asyncio.Event | None
    ) -> Exit:
        loop = asyncio.get_running_loop()
        output, name = container.output, container.name
        async with engine.output(name, output.take) as drained:
            await engine.ask("POST", f"/containers/{name}/start")
            reader, writer = await _connected(container, drained)
            if reader is None or writer is None:
                said = printable(bytes(output.streams[1])).strip().splitlines()[-1:] or ["it said nothing"]
                return setup_error(f"the container did not come up: {said[0]}", stderr=said[0])
            try:
                state = (await engine.ask("GET", f"/containers/{name}/json"))["State"]
                if state.get("Pid"):
                    container.group = ControlGroup.around(int(state["Pid"]), self._hierarchies)
                async with asyncio.timeout(SETUP_DEADLINE_S):
                    began_byte = await reader.read(1)
                if began_byte != b"R":
                    await asyncio.wait({drained}, timeout=DRAIN_DEADLINE_S)
                    said = printable(bytes(output.streams[1])).strip().splitlines()[-1:] or [
                        "it said nothing"
                    ]
                    return setup_error(f"the container did not come up: {said[0]}", stderr=said[0])
                began = loop.time()
                ended = asyncio.create_task(reader.readuntil(b"\n"))
                try:
                    reason = await until_end(ended, limits, container.group, output, stop)
                    wall_s = loop.time() - began
                    usage = container.group.usage()
                    line = await _line(ended) if reason == "exit" else b""
                finally:
                    ended.cancel()
            finally:
                writer.close()
            if reason == "exit":
                await asyncio.wait({drained}, timeout=DRAIN_DEADLINE_S)
        return await _told(engine, container, reason, line, wall_s, usage, limits)

    def _creation(self, container: _Container, job: Job, limits: Limits, uid: int) -> dict[str, object]:
        """The body of the request that creates the container."""
        support = self._staged.support / "proc"
        mounts = {
            AGENT_FILE: container.folder / "agent.py",
            _READY: container.folder / "ready.sock",
            **({} if job.socket is None else {SOCKET: job.socket.resolve()}),
            **{f"/proc/{name}": support / name for name in sorted(_REPLACEABLE)},
        }
        environment = {**job.environment, **ENVIRONMENT}
        owned = f"rw,nosuid,nodev,mode=700,uid={uid},gid={uid}"
        rlimits = resource_limits(limits, frozenset({"memory"}))
        return {
            "Image": self.image,
            "Labels": {LABEL: own_identity()},
            "Hostname": HOSTNAME,
            "User": f"{uid}:{uid}",
            "WorkingDir": "/work",
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": [],
            "Cmd": [
                *(PYTHON_FILE, "-I", "-S", "-B", BOOT, _READY, FILTER, str(limits.processes + _ROOM)),
                *command_inside(job),
            ],
            "NetworkDisabled": True,
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges:true"],
                "PidsLimit": limits.processes + 1,  # process 1 is ours
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "NanoCpus": 10**9,
                # Private too, and without the engine's /dev/shm, which takes any number of files.
                "IpcMode": "none",
                "Ulimits": [
                    {"Name": name, "Soft": rlimits[number][0], "Hard": rlimits[number][1]}
                    for number, name in _ULIMITS.items()
                ],
                "Tmpfs": {
                    # One inode is the folder itself.
                    "/work": f"{owned},exec,size={limits.work_bytes},nr_inodes={limits.work_inodes + 1}",
                    "/dev/shm": f"{owned},size={SHARED_MEMORY_BYTES},nr_inodes={SHARED_MEMORY_FILES}",  # noqa: S108
                },
                "Mounts": [
                    {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
                    for target, source in mounts.items()
                ],
                "MaskedPaths": list(_MASKED),
                "LogConfig": {"Type": "none"},
                "AutoRemove": False,
            },
        }


@contextlib.asynccontextmanager
async def _awaiting(container: _Container, uid: int) -> AsyncIterator[None]:
    """Listen for the container's one connection. The agent finds nobody to connect to."""

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        if container.ready.done():
            writer.close()
        else:
            container.ready.set_result((reader, writer))

    path = container.folder / "ready.sock"
    server = await asyncio.start_unix_server(connected, path, backlog=1)
    try:
        admit(path, uid)
        yield
    finally:
        server.close()
        container.ready.cancel()


async def _connected(
    container: _Container, drained: asyncio.Task[None]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | tuple[None, None]:
    """The connection of `boot.py`; none when the container ended, or took too long, before it came."""
    waiting: set[asyncio.Future[object]] = {container.ready, drained}  # type: ignore[arg-type]
    await asyncio.wait(waiting, timeout=SETUP_DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
    return container.ready.result() if container.ready.done() else (None, None)


async def _line(ended: asyncio.Task[bytes]) -> bytes:
    try:
        return await ended
    except asyncio.IncompleteReadError as error:
        return error.partial
    except (OSError, asyncio.LimitOverrunError):
        return b""


async def _told(
    engine: Engine,
    container: _Container,
    reason: EndReason,
    line: bytes,
    wall_s: float,
    usage: Usage,
    limits: Limits,
) -> Exit:
    """The verdict on an end, with what the engine knows where process 1 made no report."""
    if line.startswith(b"E"):
        reason = "setup_error"
    words = line.removeprefix(b"E").split()
    fill = None
    reported = len(words) == _REPORT_WORDS
    if reported:
        report = Report(int(words[0]), float(words[1]), int(words[2]), 0)
        fill = Fill(bytes_full=int(words[3]) == 0, inodes_full=int(words[4]) == 0)
    else:
        state = (await engine.ask("GET", f"/containers/{container.name}/json"))["State"]
        report = Report(signal.SIGKILL, usage.cpu_s or 0.0, 0, 0)
        if state.get("OOMKilled"):
            usage = dataclasses.replace(usage, out_of_memory_kills=max(1, usage.out_of_memory_kills))
    return judged(
        reason,
        report=report,
        wall_s=wall_s,
        limits=limits,
        usage=usage,
        streams=container.output.streams,
        overflowed=container.output.overflowed.is_set(),
        fill=fill,
        monitored=not reported,  # process 1, which no agent can end, did not end by itself
    )


async def _cleared(engine: Engine, name: str, uid: int) -> tuple[str, ...]:
    """Remove a container, look whether anything is left of it, and say what."""
    left = await _removed(engine, name)
    return (*left, *await asyncio.to_thread(residue, uid, name))


async def _removed(engine: Engine, name: str) -> tuple[str, ...]:
    """Kill and remove a container; itself, when it is not gone then."""
    with contextlib.suppress(EngineError):  # it has ended, or was never made
        await engine.ask("POST", f"/containers/{name}/kill")
    with contextlib.suppress(EngineError):
        await engine.ask("DELETE", f"/containers/{name}", force="1", v="1")
    try:
        await engine.ask("GET", f"/containers/{name}/json")
    except EngineError as error:
        return () if error.status == _NO_SUCH else (f"container {name}: {error}",)
    return (f"container {name}",)


async def _sweep(engine: Engine) -> None:
    """Remove the containers of processes that died without doing so."""
    query = f'{{"label":["{LABEL}"]}}'
    listed = await engine.ask("GET", "/containers/json", all="1", filters=query)
    for container in listed.get("items", []):
        if not alive(container["Labels"][LABEL]):
            await _removed(engine, container["Id"])
