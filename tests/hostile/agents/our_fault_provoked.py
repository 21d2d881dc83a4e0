"""Tries to break the world or the recorder, for a run that is not scored is better than a bad one."""

import os
import socket


def ask(method, path, body=b"", headers=()):
    """Status and body of one request, written by hand."""
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
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2].decode()


def solve(problem, tools, llm):
    bodies = [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"amount": []}',
        b'{"amount": {"a": 1}}',
        b'{"amount": ""}',
    ]
    bodies += [
        b'{"amount": "9e99"}',
        b'{"amount": 9223372036854775807}',
        b'{"amount": -0}',
        b'{"amount": "\xc2\xb2"}',
    ]
    bodies += [
        b'{"amount": "' + b"9" * 5000 + b'"}',
        b'{"amount": 1.5e308}',
        b'{"amount": true}',
        b"\xff\xfe",
    ]
    statuses = []
    for body in bodies:
        for name in ("add", "answer", "nothing", "%00", "a" * 200):
            statuses.append(ask("POST", f"/tools/{name}", body)[0])
    return {"attempt": "provoked", "statuses": sorted(set(statuses))}
