"""Parent of everything in one sandbox: starts it within its limits, and ends only when all of it is dead.

Runs as `python -I -S warden.py STATUS_FD PARENT UID RLIMITS ENTRANCES COMMAND...` as its own process, outside
the sandbox and its limits. The one thing to know: it adopts orphans (PR_SET_CHILD_SUBREAPER), so nothing the
command leaves behind can outlive it or stay a zombie, and it dies with the validator (PR_SET_PDEATHSIG),
which takes the sandbox along. A process of its own rather than a `preexec_fn`, which is unsafe beside
threads.

RLIMITS is `number=soft:hard,...`; ENTRANCES are cgroup.procs files joined by ':'; UID is -1 to keep our own.
SIGTERM ends the command. The report on STATUS_FD is one line:
`wait-status cpu-seconds largest-process-bytes processes-left`.
"""

import _signal as signal  # type: ignore[import-not-found]  # without its enums, which cost every episode 5 ms
import os
import resource
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_DEADLINE_S = 5.0

child = 0
stopping = False


def on_terminate(signum: int, frame: object) -> None:
    """End the command; what it leaves behind is cleared up by `reap`."""
    global stopping
    stopping = True
    if child:
        kill(child)


def kill(pid: int) -> None:
    """SIGKILL, if there is still such a process."""
    try:  # noqa: SIM105 - contextlib would slow the start
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def become(uid: int, rlimits: str, entrances: str, command: list[str], warden: int) -> None:
    """In the child: enter the groups, take on the limits and the uid, execute. Never returns."""
    try:
        for entrance in filter(None, entrances.split(":")):
            with open(entrance, "w") as file:  # noqa: PTH123 - pathlib would slow the start
                file.write("0")
        os.umask(0o077)
        for entry in rlimits.split(","):
            number, _, pair = entry.partition("=")
            soft, _, hard = pair.partition(":")
            resource.setrlimit(int(number), (int(soft), int(hard)))
        if uid >= 0:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if os.getppid() == warden:
            os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except BaseException as error:  # noqa: BLE001 - the last words of a forked child, whatever it is
        os.write(2, f"warden: {type(error).__name__}: {error}\n".encode())
    os._exit(125)


def tie_to_parent(parent: int) -> None:
    """Adopt orphans, and die when `parent` does."""
    import ctypes  # after the fork: the command starts meanwhile

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        kill(child)
        os._exit(1)


def reap() -> int:
    """Kill and collect every adopted process; returns how many were left when time ran out."""
    deadline = time.monotonic() + KILL_DEADLINE_S
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            children = []
        for pid in children:
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return 0
        if time.monotonic() > deadline:
            return max(1, len(children))
        time.sleep(0.001)


def main() -> None:
    """Start the command, wait for it, clear up after it, report."""
    global child
    status_fd, parent, uid = (int(word) for word in sys.argv[1:4])
    rlimits, entrances, command = sys.argv[4], sys.argv[5], sys.argv[6:]
    os.set_inheritable(status_fd, False)
    signal.signal(signal.SIGTERM, on_terminate)
    warden = os.getpid()
    child = os.fork()
    if child == 0:
        become(uid, rlimits, entrances, command, warden)
    # The pipes belong to the command alone, or their end would never be seen.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.closerange(3, status_fd)
    os.closerange(status_fd + 1, 4096)
    if stopping:
        kill(child)
    tie_to_parent(parent)
    # Adopted orphans are collected on the way.
    ended, status = os.waitpid(-1, 0)
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    left = reap()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = f"{status} {used.ru_utime + used.ru_stime} {used.ru_maxrss * 1024} {left}\n"
    os.write(status_fd, report.encode())


main()
