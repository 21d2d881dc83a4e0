"""Attaches to a process of the host as a debugger would."""

import ctypes
import errno
import json

LIBRARY = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """The word for how the system call went; any error but these two means that the kernel took it up."""
    if LIBRARY.syscall(number, *arguments) >= 0:
        return "worked"
    code = ctypes.get_errno()
    name = errno.errorcode[code]
    return name if code in (errno.EPERM, errno.ENOSYS) else f"taken up, {name}"


PTRACE, SEIZE, ATTACH, DETACH = 101, 0x4206, 16, 17


def solve(problem, tools, llm):
    pid = json.loads(problem.query)["pid"]
    attempts = {"seize": call(PTRACE, SEIZE, pid, 0, 0), "attach": call(PTRACE, ATTACH, pid, 0, 0)}
    attempts["seize the first process"] = call(PTRACE, SEIZE, 1, 0, 0)
    attempts["trace me"] = call(PTRACE, 0, 0, 0, 0)
    return {"attempts": attempts}
