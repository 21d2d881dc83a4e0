"""Parent of all that runs in sandboxes: forks a warden for each job, which ends only when all of it is dead.

Runs as `python -I -S launcher.py REQUEST_SOCKET`, once for each validator or worker process, outside every
sandbox and its limits, with no environment and no secrets. The one thing to know: nothing here can outlive
its purpose. A warden adopts orphans (PR_SET_CHILD_SUBREAPER), so that what a command leaves behind is killed
and collected; it kills the command when the other end of its control socket closes, as it does when the
validator dies; and the launcher ends with its request socket. Forking from here instead of starting a Python
for every job saves each of them 10 ms; and it is a process of its own rather than a `preexec_fn`, which is
unsafe beside threads.

A request is one JSON object, {uid, rlimits, entrances, command, environment, folder}, with its descriptors:
control socket, stdout, stderr, and what the command is to have as 3, 4 and so on. The report on the control
socket is one line: `wait-status cpu-seconds largest-process-bytes processes-left`.
"""

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
KILL_DEADLINE_S = 5.0
REQUEST_BYTES = 1 << 16
DESCRIPTORS = 16
FIRST = 3
"""Descriptor number of the first that a command is given beside its streams."""

prctl = ctypes.CDLL(None).prctl


def kill(pid: int) -> None:
    """SIGKILL, if there is still such a process."""
    try:  # noqa: SIM105 - said shortly
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def become(request: dict, descriptors: list[int], warden: int) -> None:  # type: ignore[type-arg]
    """In the child: enter the groups, take on the limits and the uid, execute. Never returns."""
    try:
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)  # what is ignored stays so over an exec
        for entrance in request["entrances"]:
            with open(entrance, "w") as file:  # noqa: PTH123
                file.write("0")
        os.umask(0o077)
        os.setsid()
        # First out of the way of one another, then to their numbers.
        nowhere = os.open(os.devnull, os.O_RDONLY)
        high = [os.dup2(fd, 100 + number, inheritable=False) for number, fd in enumerate(descriptors)]
        for number, fd in enumerate((nowhere, *high)):
            os.dup2(fd, number)
        os.closerange(len(descriptors) + 1, 100)
        for number, soft, hard in request["rlimits"]:
            resource.setrlimit(number, (soft, hard))
        os.chdir(request["folder"])
        if request["uid"] >= 0:
            os.setgroups([])
            os.setresgid(*[request["uid"]] * 3)
            os.setresuid(*[request["uid"]] * 3)
        if os.getppid() == warden:
            os.execve(request["command"][0], request["command"], request["environment"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - the last words of a forked child, whatever it is
        os.write(2, f"launcher: {type(error).__name__}: {error}\n".encode())
    os._exit(125)


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
        time.sleep(0.0005)


def ward(request: dict, descriptors: list[int]) -> None:  # type: ignore[type-arg]
    """Start a command, wait for its end or for the order to end it, clear up after it, report."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    control = descriptors[0]
    warden = os.getpid()
    child = os.fork()
    if child == 0:
        become(request, descriptors[1:], warden)
    # The pipes belong to the command alone, or their end would never be seen.
    for fd in descriptors[1:]:
        os.close(fd)
    alive = os.pidfd_open(child)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(alive, select.POLLIN)
    while not any(fd == alive for fd, _ in poll.poll()):
        kill(child)  # the order, or the end of whoever would give it
        poll.unregister(control)
    # Adopted orphans are collected on the way.
    ended, status = os.waitpid(-1, 0)
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    left = reap()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = f"{status} {used.ru_utime + used.ru_stime} {used.ru_maxrss * 1024} {left}\n"
    os.write(control, report.encode())


def main() -> None:
    """Serve requests until nobody can make any more."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    if os.fork():
        os._exit(0)  # so that whoever started us has nobody to collect later
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects the wardens
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is the validator's to act on
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            try:
                ward(json.loads(message), descriptors)
            finally:
                os._exit(0)
        for fd in descriptors:
            os.close(fd)


if __name__ == "__main__":
    main()
