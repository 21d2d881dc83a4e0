"""Hides memory in pipes and sockets, where only the kernel counts it."""

import fcntl
import os
import socket

SET_PIPE_SIZE = 1031


def solve(problem, tools, llm):
    held, kept = 1, []
    try:
        for _ in range(24):
            reader, writer = os.pipe()
            kept += [reader, writer]
            os.set_blocking(writer, False)
            try:
                fcntl.fcntl(writer, SET_PIPE_SIZE, 1 << 20)
            except OSError:
                pass
            held += os.write(writer, b"x" * (1 << 20))
    except OSError:
        pass
    try:
        for _ in range(64):
            pair = socket.socketpair()
            kept += pair
            pair[0].setblocking(False)
            held += pair[0].send(b"x" * (1 << 20))
    except OSError:
        pass
    return {"held_bytes": held}
