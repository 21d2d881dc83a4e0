"""Sends requests and is gone before the answer, tool and model alike."""

import os
import socket


def solve(problem, tools, llm):
    requests = {
        "/tools/add": b'{"amount": 1}',
        "/v1/chat/completions": b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}',
    }
    for _ in range(15):
        for path, body in requests.items():
            channel = socket.socket(socket.AF_UNIX)
            channel.connect(os.environ["ARENA_SOCKET"])
            channel.sendall(
                f"POST {path} HTTP/1.1\r\nhost: arena\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            )
            channel.close()
    tools.answer(total=42)
    return {"attempt": "went away"}
