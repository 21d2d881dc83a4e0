"""Writes wherever it was not told to work."""

import errno
import json
import os


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def nameless(folder):
    """A file that has no name, and is gone when it is closed."""
    os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))


def solve(problem, tools, llm):
    folder = json.loads(problem.query)["folder"]
    places = "/ /usr /usr/lib /etc /var /var/tmp /root /opt /run /agent /python /packages"
    places += " /kit /support /run/arena /dev"
    attempts = {place: tried(nameless, place) for place in places.split()}
    attempts["the host's folder"] = tried(os.open, f"{folder}/escaped", os.O_CREAT | os.O_WRONLY)
    attempts["the host's folder, by detour"] = tried(
        os.open, f"/proc/1/root{folder}/escaped", os.O_CREAT | os.O_WRONLY
    )
    return {"attempts": attempts}
