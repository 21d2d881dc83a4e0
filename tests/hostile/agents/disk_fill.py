"""Fills the work folder with files, each within the limit for one."""

import os


def solve(problem, tools, llm):
    written, block = 0, b"x" * (1 << 20)
    try:
        for number in range(16):
            fd = os.open(f"fill-{number}", os.O_CREAT | os.O_WRONLY)
            for _ in range(3):
                written += os.write(fd, block)
            os.close(fd)
    except OSError:
        pass
    return {"written_bytes": written}
