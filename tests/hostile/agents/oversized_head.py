"""Sends a head that has no end: one line, then many."""

import os
import socket


def send(start, piece, times):
    """Bytes that were taken, and what was said."""
    sent = 0
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        try:
            channel.sendall(start)
            for _ in range(times):
                channel.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        try:
            return sent, channel.recv(100)[9:12].decode()
        except OSError:
            return sent, "cut"


def solve(problem, tools, llm):
    line = send(b"GET /", b"x" * 65536, 200)
    lines = send(b"GET / HTTP/1.1\r\n", b"x: y\r\n" * 10_000, 200)
    tools.add(amount=1)
    return {"attempt": "sent", "line": line, "lines": lines, "sent": max(line[0], lines[0])}
