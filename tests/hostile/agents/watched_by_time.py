"""Times its tools and its model, to tell the real thing from a rehearsal."""

import json
import time


def solve(problem, tools, llm):
    started = time.perf_counter()
    for amount in range(20):
        tools.add(amount=amount)
    tool_ms = (time.perf_counter() - started) * 50
    started = time.perf_counter()
    llm.chat([{"role": "user", "content": "say yes"}])
    model_ms = (time.perf_counter() - started) * 1000
    return {"attempt": "timed", "tool_ms": tool_ms, "model_ms": model_ms, "told": json.dumps(dict(problem))}
