"""Tries whether a sandbox holds on this very host, by running a canary in it.

The one thing to know: a sandbox is never trusted for being installed. Kernels, containers and distributions
each take pieces away without a word; what counts is what a hostile program is refused here and now. Run in a
plain subprocess the same canary reports breaches, which shows that it bites.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from arena.sandbox.appearance import CONSTANTS, HOSTNAME
from arena.sandbox.limits import ADDRESS_SPACE_ROOM
from arena.sandbox.sandbox import PLAIN_PYTHON, Job, Limits, Sandbox
from arena.sandbox.seccomp import syscall_number
from arena.sandbox.staging import socket_folder

APPEARANCE = {"/etc/machine-id": "", **{f"/proc/{name}": text for name, text in CONSTANTS.items()}}
"""Files that could tell one host from another, with what may stand in them."""
CHECKS = (
    "files",
    "host_processes",
    "environment",
    "loopback",
    "sockets",
    "kernel",
    "writes",
    "processes",
    "memory",
    "work_folder",
    "hostname",
    *(f"hides {path}" for path in APPEARANCE),
    "leave_something_behind",
)
"""What the canary reports, in order; `no_leftovers` is added from outside."""
PROBE_SLOT = 999
PROBE_LIMITS = Limits(
    wall_s=30.0,
    cpu_s=15.0,
    memory_bytes=96 << 20,
    processes=16,
    file_bytes=4 << 20,
    work_bytes=4 << 20,
    output_bytes=64 << 10,
    open_files=64,
)
_CANARY = Path(__file__).with_name("canary.py")


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of a sandbox, and whether it was kept."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Probe:
    """All checks; `ok` only when every one was made and held."""

    ok: bool
    checks: tuple[Check, ...]


async def probe_sandbox(sandbox: Sandbox) -> Probe:
    """Run the canary in `sandbox`, with things on the host for it to find."""
    token = f"canary-{secrets.token_hex(16)}"
    async with _bait(token) as (recorder, parameters):
        job = Job(
            source=_CANARY.read_bytes(),
            socket=recorder,
            command=PLAIN_PYTHON,
            environment={"ARENA_PROBE": json.dumps(parameters)},
        )
        ended = await sandbox.run(job, PROBE_LIMITS, slot=PROBE_SLOT)
        survivors = await asyncio.to_thread(_processes_with, f"{token}-daemon")
    if ended.reason == "setup_error":
        return Probe(False, (Check("starts", False, ended.detail),))
    reported = _parse(ended.stdout)
    not_made = f"not made: the canary {ended.detail}. {ended.stderr.strip()[-200:]}"
    checks = [reported.get(name, Check(name, False, not_made)) for name in CHECKS]
    left = max(ended.leftovers, len(survivors))
    checks.append(Check("no_leftovers", left == 0, f"{left} processes outlived the sandbox"))
    return Probe(all(check.ok for check in checks), tuple(checks))


def _parse(stdout: str) -> dict[str, Check]:
    checks = {}
    for line in stdout.splitlines():
        name, _, rest = line.partition("\t")
        result, _, detail = rest.partition("\t")
        checks[name] = Check(name, result == "held", detail)
    return checks


@contextlib.asynccontextmanager
async def _bait(token: str) -> AsyncIterator[tuple[Path, dict[str, object]]]:
    """What an escaped canary would find on the host, and the recorder that it may reach."""
    folder, secret_folder = socket_folder(), Path(tempfile.mkdtemp(prefix="arena-probe-"))
    name = "ARENA_PROBE_BAIT"
    try:
        secret = await asyncio.to_thread(_leave_secret, secret_folder, token)
        with (
            socket.create_server(("127.0.0.1", 0)) as service,
            socket.socket(socket.AF_UNIX) as abstract,
            socket.socket(socket.AF_UNIX) as recorder,
        ):
            abstract.bind(f"\0{token}")
            abstract.listen()
            recorder.bind(str(folder / "recorder.sock"))
            recorder.listen()
            bystander = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()", token),
                stdin=asyncio.subprocess.PIPE,
                env={name: token},
            )
            os.environ[name] = token
            try:
                yield (
                    folder / "recorder.sock",
                    {
                        "token": token[::-1],
                        "secret": str(secret),
                        "folders": [
                            str(secret_folder),
                            "/python",
                            "/packages",
                            "/kit",
                            "/agent",
                            "/run/arena",
                        ],
                        "port": service.getsockname()[1],
                        "calls": {
                            name: syscall_number(name) for name in ("ptrace", "io_uring_setup", "unshare")
                        },
                        "processes": PROBE_LIMITS.processes,
                        "appearance": APPEARANCE,
                        "hostname": HOSTNAME,
                        "memory_bytes": 2 * (PROBE_LIMITS.memory_bytes + ADDRESS_SPACE_ROOM),
                    },
                )
            finally:
                del os.environ[name]
                bystander.kill()
                await asyncio.wait_for(bystander.wait(), 10)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(secret_folder, ignore_errors=True)


def _leave_secret(folder: Path, token: str) -> Path:
    """A file that any user of the host may read, in a folder that any may write."""
    folder.chmod(0o777)
    secret = folder / "secret"
    secret.write_text(token)
    secret.chmod(0o644)
    return secret


def _processes_with(token: str) -> list[int]:
    """Ids of the host's processes with `token` on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and token.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
