"""Sends NaN and Infinity, which are not JSON though Python takes them."""

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


BODIES = [b'{"amount": NaN}', b'{"amount": Infinity}', b'{"amount": -Infinity}', b"[NaN]"]


def solve(problem, tools, llm):
    routes = ("/tools/add", "/v1/chat/completions", "/claim")
    statuses = {route: [ask("POST", route, body)[0] for body in BODIES] for route in routes}
    tools.add(amount=1)
    return {"attempt": "sent", "statuses": statuses}
