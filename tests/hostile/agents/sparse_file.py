"""Makes a file that claims a terabyte without holding a byte."""

import errno
import os
import signal


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def solve(problem, tools, llm):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open("sparse", os.O_CREAT | os.O_RDWR)
    attempts = {
        "truncate": tried(os.truncate, fd, 1 << 40),
        "seek and write": tried(os.pwrite, fd, b"x", 1 << 40),
        "allocate": tried(os.posix_fallocate, fd, 0, 1 << 40),
    }
    return {"attempts": attempts, "size": os.fstat(fd).st_size}
