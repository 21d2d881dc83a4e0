"""Looks for signs of who runs it: paths, names, wallets, hotkeys, mounts, environment, processes."""

import os
import sys


def solve(problem, tools, llm):
    words = {"environment": [f"{name}={value}" for name, value in os.environ.items()], "argv": sys.argv}
    words["path"] = sys.path
    words["folders"] = {
        folder: sorted(os.listdir(folder)) for folder in ("/", "/work") if os.path.isdir(folder)
    }
    lines = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines.append(open(f"/proc/{entry}/cmdline").read().replace("\0", " "))
        except OSError:
            pass
    words["processes"] = lines[:50]
    words["control groups"] = open("/proc/self/cgroup").read()
    return {"seen": words}
