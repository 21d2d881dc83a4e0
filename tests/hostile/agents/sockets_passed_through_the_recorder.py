"""Sends open descriptors to the recorder along with a request, for it to keep open."""

import array
import json
import os
import socket


def solve(problem, tools, llm):
    mark = json.loads(problem.query)["mark"]
    fds = array.array("i", [os.memfd_create(f"{mark}-{number}") for number in range(8)])
    body = b'{"amount": 1}'
    head = f"POST /tools/add HTTP/1.1\r\nhost: arena\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(os.environ["ARENA_SOCKET"])
        channel.sendmsg([head + body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        status = channel.recv(65536).split()[1].decode()
    return {"attempt": status}
