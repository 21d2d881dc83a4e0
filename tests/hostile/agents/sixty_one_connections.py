"""Opens 61 connections at once and keeps them."""

import os
import socket


def solve(problem, tools, llm):
    kept, served = [], 0
    for _ in range(52):
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        kept.append(channel)
    if os.fork() == 0:
        more = [socket.socket(socket.AF_UNIX) for _ in range(9)]
        for channel in more:
            channel.connect(os.environ["ARENA_SOCKET"])
        for channel in more:
            channel.close()
        os._exit(0)
    os.wait()
    for channel in kept:
        try:
            channel.sendall(b"GET /v1/models HTTP/1.1\r\nhost: arena\r\n\r\n")
            served += channel.recv(100).startswith(b"HTTP/1.1 200")
        except OSError:
            pass
    for channel in kept:
        channel.close()
    for _ in range(50):
        try:
            tools.add(amount=1)
            break
        except OSError:
            pass
    return {"connections": 61, "served": served}
