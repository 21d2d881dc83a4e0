"""Touches far more memory than it may have, in one process."""

import mmap


def solve(problem, tools, llm):
    print('{"attempt": "begun"}', flush=True)
    size = 300 << 20
    with mmap.mmap(-1, size) as area:
        for offset in range(0, size, mmap.PAGESIZE):
            area[offset] = 1
    return {"attempt": "touched it all"}
