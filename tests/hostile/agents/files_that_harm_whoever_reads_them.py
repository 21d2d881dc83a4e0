"""Leaves files that would trap a reader of results: links, pipes, sockets, terabytes of nothing."""

import json
import os
import socket


def solve(problem, tools, llm):
    folder = json.loads(problem.query)["folder"]
    os.symlink("/etc/shadow", "output.jsonl")
    os.symlink(folder, "results")
    os.mkfifo("answer.json")
    socket.socket(socket.AF_UNIX).bind("trace.json")
    fd = os.open("score.json", os.O_CREAT | os.O_RDWR)
    os.truncate(fd, 4 << 20)
    os.symlink("loop", "loop")
    with open("result.json", "w") as file:
        json.dump({"verdict": "solved", "total": 42, "score": 1.0}, file)
    os.chmod(".", 0o000)
    return {"attempt": "left them"}
