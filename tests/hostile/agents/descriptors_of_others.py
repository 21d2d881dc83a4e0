"""Takes an open descriptor out of another process by the call made for debuggers."""

import ctypes
import errno
import json
import os

LIBRARY = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """The word for how the system call went; any error but these two means that the kernel took it up."""
    if LIBRARY.syscall(number, *arguments) >= 0:
        return "worked"
    code = ctypes.get_errno()
    name = errno.errorcode[code]
    return name if code in (errno.EPERM, errno.ENOSYS) else f"taken up, {name}"


def solve(problem, tools, llm):
    pid = json.loads(problem.query)["pid"]
    attempts = {"open the bystander": call(434, pid, 0)}
    if attempts["open the bystander"] != "worked":
        attempts["open the bystander"] = "refused " + attempts["open the bystander"]
    fd = os.pidfd_open(os.getppid() or 1) if os.getppid() else -1
    attempts["take from the parent"] = call(438, fd, 0, 0)
    attempts["advise on its memory"] = call(440, fd, None, 0, 4, 0)
    return {"attempts": attempts}
