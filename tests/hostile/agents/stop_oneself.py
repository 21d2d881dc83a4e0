"""Stops itself, so that no one can wait for its end."""

import os
import signal


def solve(problem, tools, llm):
    os.kill(os.getpid(), signal.SIGSTOP)
