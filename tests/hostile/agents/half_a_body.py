"""Announces a body, sends half of it, and waits."""

import os
import socket


def solve(problem, tools, llm):
    kept = []
    for _ in range(8):
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        channel.sendall(b'POST /tools/add HTTP/1.1\r\nhost: arena\r\ncontent-length: 13\r\n\r\n{"amo')
        kept.append(channel)
    tools.add(amount=1)
    return {"attempt": "waited", "answers": [channel.recv(100).decode()[:20] for channel in kept]}
