"""Names another episode, hotkey and budget in headers, queries and bodies."""

import json
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
    names = (
        "x-episode-id: e999",
        "x-hotkey: 5F",
        "x-arena-budget: 1000000",
        "authorization: Bearer validator",
    )
    statuses = [ask("POST", "/tools/add?episode_id=e999&budget=9", b'{"amount": 1}', names)[0]]
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "episode_id": "e999",
        "hotkey": "5F",
        "user": "e999",
    }
    statuses.append(ask("POST", "/v1/chat/completions", json.dumps(body).encode(), names)[0])
    for path in ("/episodes/e999/tools/add", "/e999/tools/add", "/tools/add/e999", "/admin", "/events"):
        statuses.append(ask("POST", path, b'{"amount": 1}', names)[0])
    return {"attempt": "named others", "statuses": statuses}
