"""Sends calls from many connections at once, cut into pieces that arrive in turn."""

import os
import socket


def solve(problem, tools, llm):
    channels = []
    for number in range(12):
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        body = f'{{"amount": {number}}}'.encode()
        head = f"POST /tools/add HTTP/1.1\r\nhost: arena\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        channels.append((channel, head + body))
    for start in range(0, 100, 9):
        for channel, request in channels:
            channel.sendall(request[start : start + 9])
    answers = [channel.recv(65536).split()[1].decode() for channel, _ in channels]
    return {"attempt": "interleaved", "statuses": answers}
