"""Touches more memory than it may have, spread over children that are each within the limit."""

import mmap
import os
import time

EACH = 48 << 20


def solve(problem, tools, llm):
    reader, writer = os.pipe()
    for _ in range(6):
        if os.fork() == 0:
            area = mmap.mmap(-1, EACH)
            for offset in range(0, EACH, mmap.PAGESIZE):
                area[offset] = 1
            os.write(writer, b"x")
            time.sleep(1000)
    os.close(writer)
    held = 1
    # A child that was killed lets go of the pipe; the living are counted a while after.
    os.set_blocking(reader, False)
    for _ in range(40):
        time.sleep(0.05)
        try:
            held += len(os.read(reader, 16)) * EACH
        except BlockingIOError:
            pass
    alive = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()
            except OSError:
                continue
            alive += int(fields[1]) == os.getpid() and fields[0] != "Z"
    return {"held_bytes": 1 + min(held, alive * EACH)}
