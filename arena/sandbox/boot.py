"""First process of a container: adds our system-call filter to Docker's, starts the agent, reports its end.

Runs as `python -I -S -B boot.py READY_SOCKET FILTER PROCESSES COMMAND...` and goes on as `start.py` in a
child. The one thing to know: this process and the agent have the same uid, so what keeps the agent out of it
is that it cannot be dumped (PR_SET_DUMPABLE) and, as process 1, gets no signal that it does not ask for. It
holds the connection to the outside until it is closed there, so that the container's accounts can be read in
peace; and ends with it, so that a validator that is killed takes its containers along.

The report, after the byte of `start.py`, is one line:
`wait-status cpu-seconds largest-process-bytes work-bytes-free work-inodes-free`.
"""

import _signal as signal  # type: ignore[import-not-found]  # without its enums, which cost time
import _socket  # `socket` costs ten times as much
import ctypes
import fcntl
import os
import resource
import sys

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
PR_SET_NO_NEW_PRIVS = 38
INSTRUCTION_BYTES = 8
WORK = "/work"


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def control(operation: int, *arguments: object) -> None:
    """prctl(2), or end."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(operation, *arguments):
        sys.exit(f"boot: prctl {operation}: {os.strerror(ctypes.get_errno())}")


def add_filter(path: str) -> None:
    """Put the filter in `path` beside the one that is in force already: a call must pass both."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would slow the start
        code = file.read()
    kept = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // INSTRUCTION_BYTES, ctypes.addressof(kept))
    control(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)


def become_agent(ready: int, arguments: list[str]) -> None:
    """Go on as `start.py`."""
    control(PR_SET_DUMPABLE, 1, 0, 0, 0)
    with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")  # before process 1, whose death would take the report along
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")  # noqa: PTH118, PTH120, PTH100
    sys.argv[:] = [script, str(ready), *arguments]
    with open(script, "rb") as file:  # noqa: PTH123
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, {"__name__": "__main__", "__file__": script, "__builtins__": __builtins__})  # noqa: S102


def outlast(child: int) -> int:
    """Collect orphans until the agent has ended, then end all others. The agent's wait status."""
    ended, status = os.waitpid(-1, 0)
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    try:  # noqa: SIM105 - contextlib would slow the start
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return status


def end_with(ready: _socket.socket) -> None:
    """End, and the container with us, when the outside closes the connection."""

    def look(signum: int, frame: object) -> None:
        try:
            closed = not ready.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # the agent has sent this signal, to no avail
        except OSError:
            closed = True
        if closed:
            os._exit(1)

    signal.signal(signal.SIGIO, look)
    fcntl.fcntl(ready, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(ready, fcntl.F_SETFL, fcntl.fcntl(ready, fcntl.F_GETFL) | os.O_ASYNC)
    look(0, None)


def main() -> None:
    """Connect, confine, start, wait, report."""
    ready = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    ready.connect(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    add_filter(sys.argv[2])
    control(PR_SET_DUMPABLE, 0, 0, 0, 0)
    child = os.fork()
    if child == 0:
        become_agent(ready.detach(), sys.argv[3:])
        return
    end_with(ready)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    status = outlast(child)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    room = os.statvfs(WORK)
    report = (status, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, room.f_bfree * room.f_bsize)
    ready.sendall(f"{' '.join(map(str, report))} {room.f_ffree}\n".encode())
    ready.recv(1)


main()
