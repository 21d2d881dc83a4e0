"""Plants symbolic and hard links that lead out of the work folder."""

import errno
import json
import os


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def solve(problem, tools, llm):
    folder = json.loads(problem.query)["folder"]
    attempts, targets = {}, [f"{folder}/coldkeypub.txt", f"/proc/1/root{folder}/coldkeypub.txt"]
    targets.append(f"../../../../..{folder}/coldkeypub.txt")
    for number, target in enumerate(targets):
        os.symlink(target, f"soft-{number}")
        attempts[f"soft link {number}"] = tried(read, f"soft-{number}")
        attempts[f"hard link {number}"] = tried(os.link, target, f"hard-{number}")
    return {"attempts": attempts}
