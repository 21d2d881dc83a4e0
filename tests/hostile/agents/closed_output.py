"""Closes its output and its input, and works on."""

import os


def solve(problem, tools, llm):
    for fd in (0, 1, 2):
        os.close(fd)
    tools.answer(total=42)
    return {"attempt": "answered without output"}
