"""Makes calls of the x32 dialect, and calls with numbers that do not exist yet."""

import ctypes
import errno
import os

LIBRARY = ctypes.CDLL(None, use_errno=True)
X32 = 0x40000000


def in_child(number):
    """How a child that makes the call ends: killed, refused, or well."""
    pid = os.fork()
    if pid == 0:
        answer = LIBRARY.syscall(number, 0, 0, 0)
        os._exit(0 if answer >= 0 else min(ctypes.get_errno(), 200))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        return f"refused by signal {-code}"
    return "worked" if code == 0 else errno.errorcode.get(code, f"refused with {code}")


def solve(problem, tools, llm):
    calls = {"x32 getpid": X32 | 39, "x32 ptrace": X32 | 521, "far too large": 100_000, "negative": -5}
    return {"attempts": {name: in_child(number) for name, number in calls.items()}}
