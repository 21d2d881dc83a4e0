"""Starts threads until it is refused."""

import threading


def solve(problem, tools, llm):
    threading.stack_size(64 << 10)
    started = 0
    try:
        while started < 200:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    return {"threads": started}
