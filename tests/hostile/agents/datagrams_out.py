"""Sends datagrams to the host, the network and everybody."""

import errno
import json
import socket


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def send(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        channel.sendto(b"secret", (host, port))


def solve(problem, tools, llm):
    bait = json.loads(problem.query)
    attempts = {host: tried(send, host, 9) for host in ("192.0.2.1", "255.255.255.255", "224.0.0.251")}
    attempts["the host"] = tried(send, bait["host_address"], bait["datagram_port"])
    send("127.0.0.1", bait["datagram_port"])  # its own loopback takes anything; the host's must not see it
    return {"attempts": attempts}
