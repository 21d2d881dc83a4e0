"""Opens sockets that read and write the wire itself."""

import errno
import socket


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def solve(problem, tools, llm):
    kinds = {
        "icmp": (socket.AF_INET, socket.SOCK_RAW, 1),
        "any protocol": (socket.AF_INET, socket.SOCK_RAW, 255),
        "icmp6": (socket.AF_INET6, socket.SOCK_RAW, 58),
        "packet": (17, socket.SOCK_RAW, 3),
        "packet without header": (17, socket.SOCK_DGRAM, 3),
        "express path": (44, socket.SOCK_RAW, 0),
    }
    return {"attempts": {name: tried(socket.socket, *kind) for name, kind in kinds.items()}}
