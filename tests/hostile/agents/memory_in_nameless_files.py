"""Hides memory in nameless files, which no process maps."""

import os


def solve(problem, tools, llm):
    print('{"held_bytes": 1}', flush=True)
    held, block = 1, b"x" * (1 << 20)
    try:
        for number in range(45):
            fd = os.memfd_create(f"m{number}")
            for _ in range(3):
                held += os.write(fd, block)
            print(f'{{"held_bytes": {held}}}', flush=True)
    except OSError:
        pass
    return {"held_bytes": held}
