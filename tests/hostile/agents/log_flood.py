"""Fills the record: large bodies, many refusals, the longest names."""

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
    large = b'{"amount": "' + b"x" * 900_000 + b'"}'
    statuses = []
    for _ in range(6):
        statuses.append(ask("POST", "/tools/add", large)[0])
    for number in range(150):
        statuses.append(ask("POST", f"/no/such/route/{number}/" + "y" * 4000)[0])
    return {"attempt": "flooded", "statuses": sorted(set(statuses))}
