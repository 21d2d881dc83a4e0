"""Becomes root, by asking, by set-uid programs and by capabilities."""

import ctypes
import errno
import os


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def become(uid):
    """In a child, for there may be no way back."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "refused")


def solve(problem, tools, llm):
    attempts = {
        "root": tried(become, 0),
        "somebody else": tried(become, 65534),
        "a neighbour": tried(become, 61001),
    }
    for program in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp"):
        attempts[program] = tried(os.stat, program)
    ctypes.CDLL(None).prctl(38, 0, 0, 0, 0)
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    sets = {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")}
    return {"attempts": attempts, "capabilities": sets, "no_new_privileges": status["NoNewPrivs"].strip()}
