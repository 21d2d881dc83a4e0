"""Sleeps for ever and ignores every signal that can be ignored."""

import signal
import time


def solve(problem, tools, llm):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(1000)
