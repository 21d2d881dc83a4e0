"""What lies on the host for a hostile agent to find, and whether it was found.

The agent is told where everything is (a miner may know how validators are set up), but never the secret
itself: a secret that turns up in what the agent sent or printed was taken from the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BYSTANDER = """
import os, sys
secret = os.environ["WALLET_PASSWORD"].encode()
print(id(secret) + sys.getsizeof(b"") - 1, flush=True)
sys.stdin.read()
"""
_START_DEADLINE_S = 30.0
_IPC_RMID = 0


@dataclass
class Bait:
    """The host's valuables in one run. `told` is what the agent learns, as JSON in its problem's query."""

    secret: str
    mark: str
    folder: Path
    services: dict[str, socket.socket]
    bystander: asyncio.subprocess.Process
    told: dict[str, Any]
    before: dict[str, bytes] = field(default_factory=dict)

    def touched(self) -> Iterator[str]:
        """What happened to it, one sentence for each thing that should not have."""
        for name, service in self.services.items():
            with contextlib.suppress(BlockingIOError):
                service.recv(1) if service.type == socket.SOCK_DGRAM else service.accept()[0].close()
                yield f"the host's {name} was reached"
        if _contents(self.folder) != self.before:
            yield "files on the host were changed"
        state = _status(self.bystander.pid).get("State", "X")
        if state[0] in "XZTt":
            yield f"a process on the host was killed or stopped ({state})"
        if _status(self.bystander.pid).get("TracerPid", "0") != "0":
            yield "a process on the host is being traced"
        if any(self.mark.encode() in line for line in _command_lines()):
            yield "a process of the agent's outlived it"
        if _shared_segment(self.told["shared_memory_key"]) is not None:
            yield "shared memory of the agent's outlived it"


@contextlib.asynccontextmanager
async def laid(bare: bool = False) -> AsyncIterator[Bait]:
    """Bait laid out for one run. `bare` is passed on to agents that have a harmless twin."""
    secret, mark = secrets.token_hex(16), f"hostile-{secrets.token_hex(8)}"
    folder = _wallets(secret)
    key = secrets.randbelow(1 << 30) + 1
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(_remove_shared_segment, key)
        services = {
            "loopback service": _listening(socket.AF_INET, ("127.0.0.1", 0)),
            "service on every address": _listening(socket.AF_INET, ("0.0.0.0", 0)),
            "datagram service": _listening(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM),
            "abstract socket": _listening(socket.AF_UNIX, f"\0{mark}-abstract"),
            "control socket": _listening(socket.AF_UNIX, str(folder / "docker.sock")),
        }
        for service in services.values():
            stack.enter_context(service)
        os.chmod(folder / "docker.sock", 0o666)  # noqa: PTH101 - does not block
        bystander = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _BYSTANDER, f"--seed={secret}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"WALLET_PASSWORD": secret},
        )
        try:
            assert bystander.stdout is not None
            address = int(await asyncio.wait_for(bystander.stdout.readline(), _START_DEADLINE_S))
            told = {
                "bare": bare,
                "folder": str(folder),
                "mark": mark,
                "pid": bystander.pid,
                "address": address,
                "length": len(secret),
                "variable": "WALLET_PASSWORD",
                "argument": "--seed=",
                "shared_memory_key": key,
                "port": services["loopback service"].getsockname()[1],
                "open_port": services["service on every address"].getsockname()[1],
                "datagram_port": services["datagram service"].getsockname()[1],
                "host_address": _own_address(),
                "abstract": f"{mark}-abstract",
                "control_socket": str(folder / "docker.sock"),
            }
            yield Bait(secret, mark, folder, services, bystander, told, _contents(folder))
        finally:
            with contextlib.suppress(ProcessLookupError):
                bystander.kill()
            await asyncio.wait_for(bystander.wait(), _START_DEADLINE_S)


def _wallets(secret: str) -> Path:
    """A folder that any may write to, with keys of which one is for its owner only."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-bait-"))
    folder.chmod(0o777)
    for name, mode in (("coldkey", 0o600), ("coldkeypub.txt", 0o644)):
        file = folder / name
        file.write_text(secret)
        file.chmod(mode)
    return folder


def _listening(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> socket.socket:
    service = socket.socket(family, kind)
    service.bind(address)
    if kind == socket.SOCK_STREAM:
        service.listen()
    service.setblocking(False)
    return service


def _own_address() -> str:
    """This host's address on the network; its loopback where it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _contents(folder: Path) -> dict[str, bytes]:
    """Every name below `folder`, with mode and content of files."""
    return {
        str(path.relative_to(folder)): oct(path.lstat().st_mode).encode()
        + (path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
        for path in folder.rglob("*")
    }


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command_lines() -> Iterator[bytes]:
    own = str(os.getpid())
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and folder.name != own:
                yield (folder / "cmdline").read_bytes()


def _shared_segment(key: int) -> int | None:
    """Id of the host's System V segment with that key."""
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return None
    return next((int(words[1]) for words in map(str.split, lines) if int(words[0]) == key), None)


def _remove_shared_segment(key: int) -> None:
    segment = _shared_segment(key)
    if segment is not None:
        ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
