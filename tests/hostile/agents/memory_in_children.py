"""Touches more memory than it may have, spread over children that are each within the limit."""

import mmap
import os
import time

EACH = 48 << 20
CHILDREN = 6


def solve(problem, tools, llm):
    reader, writer = os.pipe()
    for _ in range(CHILDREN):
        if os.fork() == 0:
            area = mmap.mmap(-1, EACH)
            for offset in range(0, EACH, mmap.PAGESIZE):
                area[offset] = 1
            os.write(writer, b"%8d" % os.getpid())
            time.sleep(1000)
    os.set_blocking(reader, False)
    full, dead = set(), set()
    end = time.monotonic() + 10
    while len(full | dead) < CHILDREN and time.monotonic() < end:
        time.sleep(0.05)
        try:
            full.add(int(os.read(reader, 8)))
        except BlockingIOError:
            pass
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            dead.add(pid)
    return {"held_bytes": 1 + len(full - dead) * EACH}
