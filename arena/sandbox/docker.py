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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from arena.sandbox.engine import Engine, EngineError, engine_socket
from arena.sandbox.execution import (
    DRAIN_DEADLINE_S,
    SETUP_DEADLINE_S,
    Output,
    Report,
    printable,
    setup_error,
    until_end,
    verdict,
)
from arena.sandbox.image import BOOT, FILTER, ensure_image
from arena.sandbox.inside import (
    AGENT_FILE,
    ENVIRONMENT,
    PYTHON_FILE,
    SHARED_MEMORY_BYTES,
    SLOTS,
    SOCKET,
    admit,
    command_inside,
    slot_uid,
)
from arena.sandbox.limits import (
    SANDBOX_PROCESSES,
    ControlGroup,
    Hierarchies,
    Usage,
    alive,
    own_identity,
    resource_limits,
)
from arena.sandbox.probe import Probe, probe_sandbox
from arena.sandbox.sandbox import EndReason, Exit, Job, Limits, SandboxUnavailable
from arena.sandbox.staging import StagedPython, socket_folder

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
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kpagecount",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/mounts",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/softirqs",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/version",
    "/proc/vmallocinfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/class",
    "/sys/devices",
    "/sys/firmware",
)
"""Docker's own list, and what else would tell one host from another."""
_CONSTANT = ("cpuinfo", "loadavg", "meminfo", "stat", "uptime")
"""Files of /proc that the engine allows to be replaced by files of ours."""

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
        self._image = image
        self._hierarchies = Hierarchies.of_this_host()
        self._taken: set[int] = set()
        self._swept = False

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        """See `Sandbox.run`."""
        if not 0 <= slot < SLOTS:
            raise ValueError(f"slot must be from 0 to {SLOTS - 1}, not {slot}")
        if slot in self._taken:
            raise ValueError(f"slot {slot} is running a job, or could not be emptied after one: use another")
        self._taken.add(slot)
        leftovers = 0
        try:
            async with Engine(self._socket) as engine:
                if not self._swept:
                    await _sweep(engine)
                    self._swept = True
                ended = await self._run_in(engine, job, limits, slot, stop)
            leftovers = ended.leftovers
        except (OSError, SandboxUnavailable, EngineError) as error:
            return setup_error(f"{type(error).__name__}: {error}")
        finally:
            if not leftovers:
                self._taken.discard(slot)
        return ended

    async def probe(self) -> Probe:
        """See `Sandbox.probe`."""
        return await probe_sandbox(self)

    async def _run_in(
        self, engine: Engine, job: Job, limits: Limits, slot: int, stop: asyncio.Event | None
    ) -> Exit:
        uid = slot_uid(slot)
        admit(job.socket, uid)
        folder = socket_folder("container-")
        name = f"arena-{own_identity()}-{next(_sequence)}-{secrets.token_hex(4)}"
        container = _Container(name, folder, Output(limits.output_bytes))
        left = 0
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
                    left = await asyncio.shield(_removed(engine, name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return dataclasses.replace(ended, leftovers=max(ended.leftovers, left))

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
            SOCKET: job.socket.resolve(),
            **{f"/proc/{name}": support / name for name in _CONSTANT},
        }
        environment = {**job.environment, **ENVIRONMENT}
        work = f"rw,nosuid,nodev,exec,size={limits.work_bytes},nr_inodes={4096},mode=700,uid={uid},gid={uid}"
        rlimits = resource_limits(limits, frozenset({"memory"}))
        return {
            "Image": self._image,
            "Labels": {LABEL: own_identity()},
            "Hostname": "sandbox",
            "User": f"{uid}:{uid}",
            "WorkingDir": "/work",
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": [],
            "Cmd": [
                *(PYTHON_FILE, "-I", "-B", BOOT, _READY, FILTER, str(limits.processes)),
                *command_inside(job),
            ],
            "NetworkDisabled": True,
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges:true"],
                "PidsLimit": limits.processes + SANDBOX_PROCESSES,
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "NanoCpus": 10**9,
                "IpcMode": "private",
                "ShmSize": SHARED_MEMORY_BYTES,
                "Ulimits": [
                    {"Name": name, "Soft": rlimits[number][0], "Hard": rlimits[number][1]}
                    for number, name in _ULIMITS.items()
                ],
                "Tmpfs": {"/work": work},
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
    """The verdict on an end, with what the engine knows beside the report."""
    if line.startswith(b"E"):
        reason = "setup_error"
    words = line.removeprefix(b"E").split()
    if len(words) >= 3:
        report = Report(int(words[0]), float(words[1]), int(words[2]), 0)
    else:
        state = (await engine.ask("GET", f"/containers/{container.name}/json"))["State"]
        report = Report(9, usage.cpu_s or 0.0, 0, 0)
        if state.get("OOMKilled"):
            usage = Usage(usage.cpu_s, usage.peak_memory_bytes, max(1, usage.out_of_memory_kills))
    return verdict(
        reason=reason, report=report, wall_s=wall_s, limits=limits, usage=usage, output=container.output
    )


async def _removed(engine: Engine, name: str) -> int:
    """Kill and remove a container; 0 when it is gone, 1 when it is not."""
    with contextlib.suppress(EngineError):  # it has ended, or was never made
        await engine.ask("POST", f"/containers/{name}/kill")
    with contextlib.suppress(EngineError):
        await engine.ask("DELETE", f"/containers/{name}", force="1", v="1")
    try:
        await engine.ask("GET", f"/containers/{name}/json")
    except EngineError as error:
        return 0 if error.status == 404 else 1
    return 1


async def _sweep(engine: Engine) -> None:
    """Remove the containers of processes that died without doing so."""
    query = f'{{"label":["{LABEL}"]}}'
    listed = await engine.ask("GET", "/containers/json", all="1", filters=query)
    for container in listed.get("items", []):
        if not alive(container["Labels"][LABEL]):
            await _removed(engine, container["Id"])
