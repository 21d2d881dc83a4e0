"""Sends bodies that have no end: announced, and in chunks that never stop."""

import os
import socket


def send(head, piece, times):
    """Bytes that were taken, and what was said."""
    sent = 0
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        try:
            channel.sendall(head)
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
    start = b"POST /tools/answer HTTP/1.1\r\nhost: arena\r\n"
    announced = send(start + b"content-length: 10000000000\r\n\r\n", b"x" * 65536, 200)
    chunked = send(start + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n", 200)
    tools.add(amount=1)
    return {
        "attempt": "sent",
        "announced": announced,
        "chunked": chunked,
        "sent": max(announced[0], chunked[0]),
    }
