"""Ends while a child of its own still holds the output open."""

import os
import time


def solve(problem, tools, llm):
    if os.fork() == 0:
        time.sleep(1000)
    return {"attempt": "left a child"}
