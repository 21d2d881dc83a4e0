"""Floods standard output."""

import os


def solve(problem, tools, llm):
    while True:
        os.write(1, b"x" * 65536)
