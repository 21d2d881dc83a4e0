"""Writes one file past the limit for one file, ignoring the signal that says so."""

import os
import signal


def solve(problem, tools, llm):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open("large", os.O_CREAT | os.O_WRONLY)
    written = 0
    try:
        for _ in range(12):
            written += os.write(fd, b"x" * (1 << 20))
    except OSError:
        pass
    return {"written_bytes": written}
