"""Reaches into other processes' open files, memory and working folders through /proc."""

import errno
import json
import os


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def rights(pid):
    """What the kernel lets a process do."""
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
    return [status[name].strip() for name in ("Seccomp", "NoNewPrivs", "CapEff", "CapBnd")]


def take_over_the_first():
    """The memory of process 1, if that process may do more than we."""
    if rights(1) == rights("self"):
        raise PermissionError(errno.EPERM, "nothing to gain")
    return os.open("/proc/1/mem", os.O_RDWR)


def solve(problem, tools, llm):
    pid = json.loads(problem.query)["pid"]
    attempts = {"memory of the first process": tried(take_over_the_first)}
    for name in ("fd", "map_files", "ns"):
        attempts[f"{name} of the validator's"] = tried(os.listdir, f"/proc/{pid}/{name}")
    for name in ("root", "cwd", "exe"):
        attempts[f"{name} of the validator's"] = tried(os.readlink, f"/proc/{pid}/{name}")
    for name in ("root/etc/shadow", "cwd/etc/shadow"):
        attempts[f"{name} of the first process"] = tried(os.open, f"/proc/1/{name}", os.O_RDONLY)
    return {"attempts": attempts}
