"""Computes without end."""


def solve(problem, tools, llm):
    while True:
        pass
