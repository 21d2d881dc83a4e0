"""Opens files until it is refused."""

import os


def solve(problem, tools, llm):
    opened = 3
    try:
        while opened < 5000:
            os.dup(1)
            opened += 1
    except OSError:
        pass
    for fd in range(6, 5000):
        try:
            os.close(fd)
        except OSError:
            pass
    return {"descriptors": opened}
