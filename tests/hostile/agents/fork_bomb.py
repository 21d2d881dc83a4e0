"""Forks until it is refused, with children that sleep."""

import os
import time


def solve(problem, tools, llm):
    children = []
    try:
        while len(children) < 200:
            pid = os.fork()
            if pid == 0:
                time.sleep(1000)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    return {"children": len(children)}
