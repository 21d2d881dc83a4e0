"""Leaves its result as the largest file allowed with nothing in it, many times."""

import os


def solve(problem, tools, llm):
    for number in range(200):
        os.truncate(
            os.open("result.json" if not number else f"result-{number}.json", os.O_CREAT | os.O_RDWR), 4 << 20
        )
        os.closerange(10, 60)
    return {"attempt": "left sparse files"}
