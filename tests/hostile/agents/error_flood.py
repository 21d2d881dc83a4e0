"""Floods standard error from several processes at once."""

import os


def solve(problem, tools, llm):
    os.fork()
    while True:
        os.write(2, b"x" * 65536)
