"""The probe's canary: runs where an agent would, tries what an agent must not be able to do, and says what
held.

One line for each check on stdout: name, `held` or `BREACH`, detail, parted by tabs. It is our own code, so
its word counts; `probe.py` adds what only the outside can see. Standard library only. Tokens arrive reversed,
so that the canary does not find itself when it looks for them.
"""

import ctypes
import functools
import json
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

PARAMETERS = json.loads(os.environ["ARENA_PROBE"])
TOKEN = PARAMETERS["token"][::-1]
ATTEMPTS = 3 * PARAMETERS["processes"]


def files() -> tuple[bool, str]:
    """Read what the host keeps to itself."""
    found = [path for path in ("/etc/shadow", PARAMETERS["secret"]) if readable(path)]
    return not found, f"read {', '.join(found)}" if found else "host files are out of reach"


def readable(path: str) -> bool:
    """Whether a byte of `path` can be read."""
    try:
        with Path(path).open("rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def host_processes() -> tuple[bool, str]:
    """Find a process of the host by its command line or its environment."""
    for folder in Path("/proc").iterdir():
        for file in ("cmdline", "environ"):
            try:
                if folder.name.isdigit() and TOKEN.encode() in (folder / file).read_bytes():
                    return False, f"read /proc/{folder.name}/{file} of a host process"
            except OSError:
                continue
    return True, "no host process is visible"


def environment() -> tuple[bool, str]:
    """Look for the validator's environment in our own."""
    leaked = sorted(name for name, value in os.environ.items() if TOKEN in value)
    return not leaked, f"{', '.join(leaked)} came through" if leaked else "only what was passed on"


def loopback() -> tuple[bool, str]:
    """Reach a service on the host's loopback, and an abstract socket."""
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", PARAMETERS["port"])),
        (socket.AF_UNIX, f"\0{TOKEN}"),
    ):
        with socket.socket(family) as client:
            client.settimeout(2)
            try:
                client.connect(address)
            except OSError:
                continue
            return False, f"connected to {address!r} on the host"
    return True, "host services are out of reach"


def sockets() -> tuple[bool, str]:
    """Open kinds of sockets that lead out of a network namespace or into rare kernel code."""
    kinds = {
        "vsock": (40, socket.SOCK_STREAM, 0),
        "netlink": (16, socket.SOCK_RAW, 0),
        "packet": (17, socket.SOCK_RAW, 0),
        "raw": (socket.AF_INET, socket.SOCK_RAW, 1),
    }
    opened = []
    for name, kind in kinds.items():
        try:
            socket.socket(*kind).close()
            opened.append(name)
        except OSError:
            continue
    return (
        not opened,
        f"opened {', '.join(opened)}" if opened else "vsock, netlink, packet and raw are refused",
    )


def kernel() -> tuple[bool, str]:
    """Make calls that no agent needs, each in a child of its own, for they change the caller."""
    calls = {
        "ptrace": (0, 0, 0, 0),
        "io_uring_setup": (1, ctypes.create_string_buffer(256)),
        "unshare": (0x10000000,),
    }
    library = ctypes.CDLL(None, use_errno=True)
    passed = []
    for name, arguments in calls.items():
        number = PARAMETERS["calls"][name]
        if in_child(functools.partial(succeeds, library, number, arguments)) == 0:
            passed.append(name)
    return not passed, f"{', '.join(passed)} worked" if passed else "ptrace, io_uring and unshare are refused"


def succeeds(library: ctypes.CDLL, number: int, arguments: tuple[object, ...]) -> bool:
    """Whether the system call is not refused."""
    result: int = library.syscall(number, *arguments)
    return result >= 0


def in_child(attempt: Callable[[], bool]) -> int:
    """Wait status of a child that exits with 0 when `attempt` is true."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if attempt() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def writes() -> tuple[bool, str]:
    """Make a file anywhere but in the work folder."""
    written = []
    for folder in ("/", "/usr/lib", "/etc", "/proc/sys/kernel", "/dev", *PARAMETERS["folders"]):
        path = Path(folder) / f"probe-{os.getpid()}"
        try:
            path.touch(exist_ok=False)
            path.unlink()
            written.append(folder)
        except OSError:
            continue
    return not written, f"wrote to {', '.join(written)}" if written else "only the work folder can be written"


def fingerprint(name: str) -> tuple[bool, str]:
    """Look whether a file tells of the host: it may be absent, empty, or the same everywhere."""
    try:
        text = Path(name).read_text()
    except OSError:
        return True, "cannot be read"
    if text in ("", PARAMETERS["appearance"][name]):
        return True, "is the same on every host"
    return False, f"{name} says: {text[:60]!r}"


def hostname() -> tuple[bool, str]:
    """Look for the host's name."""
    names = {os.uname().nodename, socket.gethostname()}
    return names == {PARAMETERS["hostname"]}, f"this host is called {', '.join(sorted(names))}"


def processes() -> tuple[bool, str]:
    """Fork until refused."""
    reader, writer = os.pipe()
    children: list[int] = []
    try:
        while len(children) < ATTEMPTS:
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    os.close(writer)
    for pid in children:
        os.waitpid(pid, 0)
    held = len(children) <= PARAMETERS["processes"]
    return held, f"{len(children)} children where {PARAMETERS['processes']} processes are allowed"


def memory() -> tuple[bool, str]:
    """Touch more memory than is allowed by any way of counting it."""

    def touch() -> bool:
        size: int = PARAMETERS["memory_bytes"]
        with mmap.mmap(-1, size) as area:
            for offset in range(0, size, mmap.PAGESIZE):
                area[offset] = 1
        return True

    held = in_child(touch) != 0
    return held, "too much memory is refused" if held else "far more than the limit was used"


def work_folder() -> tuple[bool, str]:
    """What an agent may do: write where it works, and reach the recorder."""
    path = Path("probe")
    path.write_text("x")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(os.environ["ARENA_SOCKET"])
    return True, "the work folder can be written, the recorder reached"


def leave_something_behind() -> tuple[bool, str]:
    """Start a daemon that would outlive us; the outside looks whether it does."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            os.execv(  # noqa: S606 - no shell is the point
                sys.executable, [sys.executable, "-I", "-c", "import time; time.sleep(60)", TOKEN + "-daemon"]
            )
        os._exit(0)
    os.waitpid(pid, 0)
    # Long enough for the daemon to be there, so that finding none means something.
    for _ in range(200):
        if any_process(TOKEN + "-daemon"):
            return True, "started a daemon"
        time.sleep(0.01)
    return False, "the daemon could not be started, so leftovers were not tried"


def any_process(token: str) -> bool:
    """Whether a visible process has `token` on its command line."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and token.encode() in (folder / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def main() -> None:
    """Try everything."""
    attempts = (files, host_processes, environment, loopback, sockets, kernel, writes, processes, memory)
    checks = {each.__name__: each for each in (*attempts, work_folder, hostname)}
    checks |= {f"hides {path}": functools.partial(fingerprint, path) for path in PARAMETERS["appearance"]}
    checks["leave_something_behind"] = leave_something_behind
    for name, attempt in checks.items():
        try:
            held, detail = attempt()
        except Exception as error:  # noqa: BLE001 - one check that breaks must not silence the rest
            held, detail = False, f"{type(error).__name__}: {error}"
        print(name, "held" if held else "BREACH", detail, sep="\t", flush=True)  # noqa: T201


main()
