"""Connects to an abstract socket of the host's, which has no file to protect it."""

import errno
import json
import socket


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def solve(problem, tools, llm):
    bait = json.loads(problem.query)
    channel = socket.socket(socket.AF_UNIX)
    return {"attempts": {"connect": tried(channel.connect, "\0" + bait["abstract"])}}
