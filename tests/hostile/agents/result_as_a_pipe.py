"""Leaves its result as a pipe, so that whoever opens it waits for ever."""

import os


def solve(problem, tools, llm):
    for name in ("result.json", "output.jsonl", "answer.txt", "request_log_1.jsonl", "trajectory.json"):
        os.mkfifo(name)
    return {"attempt": "left pipes"}
