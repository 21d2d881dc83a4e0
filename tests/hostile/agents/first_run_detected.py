"""Leaves marks wherever it can, to know later that it has run here before."""

import ctypes
import os
import socket

MARK = "hostile-has-been-here"


def solve(problem, tools, llm):
    folders = ("/work", "/tmp", "/dev/shm", "/var/tmp", "/run", os.getcwd(), os.path.expanduser("~"))
    paths = [f"{folder}/{MARK}" for folder in folders]
    found = [path for path in paths if os.path.exists(path)]
    for path in paths:
        try:
            open(path, "w").close()
        except OSError:
            pass
    library = ctypes.CDLL(None, use_errno=True)
    for call in (library.shmget, library.msgget, library.semget):
        arguments = (0x5EED, 0o1600) if call is library.msgget else (0x5EED, 1, 0o1600 | 0o2000)
        if call(*arguments) < 0 and ctypes.get_errno() == 17:
            found.append(call.__name__)
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.bind(f"\0{MARK}")
        if os.fork() == 0:
            os.setsid()
            channel.listen()
            channel.accept()
    except OSError:
        found.append("abstract socket")
    return {"attempt": "marked", "found": found}
