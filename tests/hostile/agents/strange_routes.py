"""Asks for routes that a careless server would take for others."""

import os
import socket


def ask(method, path, body=b"", headers=()):
    """Status (0 when there is no answer) and body of one request, written by hand."""
    lines = [f"{method} {path} HTTP/1.1", "host: arena", "connection: close", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        channel.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        answer = b""
        while piece := channel.recv(65536):
            answer += piece
    return int(answer.split()[1]) if answer else 0, answer.partition(b"\r\n\r\n")[2].decode()


PATHS = (
    "/tools/../claim",
    "/tools/%2e%2e/claim",
    "//tools/answer",
    "/tools/answer/",
    "/tools/answer/../finish",
    "/tools/answer%00",
    "/tools/answer%0d%0ax:y",
    "/TOOLS/answer",
    "http://localhost/tools/answer",
    "/tools/%61nswer%20",
    "/tools/__class__",
    "/tools/",
    "*",
    "/v1/../../etc/shadow",
    "/static/../../../../etc/shadow",
)


def solve(problem, tools, llm):
    statuses = {path: ask("POST", path, b'{"total": 42}')[0] for path in PATHS}
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "HEAD", "BREW"):
        statuses[method] = ask(method, "/tools/answer", b'{"total": 42}' if method != "HEAD" else b"")[0]
    return {"attempt": "asked", "statuses": statuses}
