"""Hides memory in a System V segment, which outlives whoever made it."""

import ctypes
import json

CREATE = 0o1666


def solve(problem, tools, llm):
    print('{"attempt": "begun"}', flush=True)
    bait = json.loads(problem.query)
    library = ctypes.CDLL(None, use_errno=True)
    library.shmat.restype = ctypes.c_void_p
    size = 120 << 20
    segment = library.shmget(bait["shared_memory_key"], size, CREATE)
    if segment < 0:
        return {"attempt": "no segment"}
    address = library.shmat(segment, None, 0)
    ctypes.memset(address, 1, size)
    return {"attempt": "filled a segment"}
