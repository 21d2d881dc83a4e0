"""Fills the work folder and every other folder that can be written, shared memory above all."""

import os
import signal


def solve(problem, tools, llm):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written, block = 0, b"x" * (1 << 20)
    for folder in ("/work", ".", "/dev/shm", "/var/tmp", "/run", "/dev", "/run/arena", "/tmp"):
        for _ in range(2):
            try:
                fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY)  # has no name, and is gone with us
                for _ in range(12):
                    written += os.write(fd, block)
            except OSError:
                pass
    return {"written_bytes": written}
