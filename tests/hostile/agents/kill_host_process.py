"""Kills a process of the host whose number it knows."""

import errno
import json
import os
import signal


def tried(action, *arguments):
    try:
        return f"worked {action(*arguments)!r}"[:200]
    except OSError as error:
        return errno.errorcode.get(error.errno, f"refused {error}")


def by_descriptor(pid):
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)


def solve(problem, tools, llm):
    pid = json.loads(problem.query)["pid"]
    attempts = {"stop": tried(os.kill, pid, signal.SIGSTOP), "group": tried(os.killpg, pid, signal.SIGKILL)}
    attempts["by descriptor"] = tried(by_descriptor, pid)
    attempts["kill"] = tried(os.kill, pid, signal.SIGKILL)
    return {"attempts": attempts}
