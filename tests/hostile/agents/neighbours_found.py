"""Looks for another of its kind that runs at the same time, and signals to it."""

import json
import os
import socket
import time


def line_of(pid):
    """A process and those it came from, by number."""
    line = [str(pid)]
    while line[-1] not in ("0", "1"):
        fields = open(f"/proc/{line[-1]}/stat").read().rpartition(")")[2].split()
        line.append(fields[1])
    return line


def solve(problem, tools, llm):
    own = str(json.loads(problem.query)["pid"])
    found, own_line = set(), line_of(os.getpid())
    for folder in ("/work", "/tmp", "/dev/shm"):
        try:
            with open(f"{folder}/hostile-neighbour-{own}", "w") as file:
                file.write(own)
        except OSError:
            pass
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("0.0.0.0", 47_047))
        listener.listen()
    except OSError:
        found.add("port")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        for folder in ("/work", "/tmp", "/dev/shm"):
            for name in os.listdir(folder):
                if name.startswith("hostile-neighbour-") and not name.endswith(own):
                    found.add(f"{folder}/{name}")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = open(f"/proc/{entry}/cmdline").read()
            except OSError:
                continue
            if "/agent.py" in command and entry not in own_line:
                found.add("process")
        time.sleep(0.1)
    for folder in ("/work", "/tmp", "/dev/shm"):
        try:
            os.unlink(f"{folder}/hostile-neighbour-{own}")
        except OSError:
            pass
    return {"attempt": "looked", "found": sorted(found)}
