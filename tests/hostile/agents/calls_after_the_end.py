"""Goes on after the final call: answers anew, asks the model, makes a claim."""

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
    tools.answer(total=41)
    print('{"attempt": "ended"}', flush=True)
    tools.finish()
    for _ in range(200):
        for path, body in (
            ("/tools/answer", b'{"total": 42}'),
            ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "x"}]}'),
            ("/claim", b'{"attempt": "claimed after the end"}'),
        ):
            try:
                ask("POST", path, body)
            except (OSError, IndexError):
                pass
