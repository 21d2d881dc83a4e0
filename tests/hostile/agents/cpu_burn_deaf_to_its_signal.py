"""Computes without end and ignores the signal that announces the limit."""

import signal


def solve(problem, tools, llm):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
