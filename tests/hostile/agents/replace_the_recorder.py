"""Puts a socket of its own in the recorder's place, to answer in its name."""

import errno
import json
import os
import socket


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def bind(path):
    socket.socket(socket.AF_UNIX).bind(path)


def solve(problem, tools, llm):
    path = os.environ["ARENA_SOCKET"]
    tools.add(amount=1)
    attempts = {"unlink": tried(os.unlink, path), "bind": tried(bind, path)}
    attempts["bind beside it"] = tried(bind, path + "2")
    print(json.dumps({"attempts": attempts}), flush=True)
    tools.add(amount=2)
    return {"attempts": attempts}
