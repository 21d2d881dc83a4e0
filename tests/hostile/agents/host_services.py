"""Connects to services that listen on the host, by loopback and by address."""

import errno
import json
import socket


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def reach(family, address):
    with socket.socket(family) as channel:
        channel.settimeout(1)
        channel.connect(address)


def solve(problem, tools, llm):
    bait = json.loads(problem.query)
    attempts = {}
    for host in ("127.0.0.1", "localhost", "0.0.0.0", bait["host_address"], "172.17.0.1", "10.0.2.2"):
        for port in (bait["port"], bait["open_port"]):
            attempts[f"{host}:{port}"] = tried(reach, socket.AF_INET, (host, port))
    attempts["::1"] = tried(reach, socket.AF_INET6, ("::1", bait["open_port"]))
    attempts["mapped"] = tried(reach, socket.AF_INET6, ("::ffff:127.0.0.1", bait["port"]))
    return {"attempts": attempts}
