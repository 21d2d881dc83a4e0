"""Spends more calls and tokens than it has, by asking for all at once."""

import json
import threading


def solve(problem, tools, llm):
    outcomes = []

    def one():
        try:
            llm.chat(
                [{"role": "user", "content": json.dumps({"message": {"role": "assistant", "content": "x"}})}]
            )
            outcomes.append("answered")
        except Exception as error:
            outcomes.append(str(getattr(error, "code", error)))

    for _ in range(4):
        threads = [threading.Thread(target=one) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {
        "attempt": "spent",
        "answered": outcomes.count("answered"),
        "refused": outcomes.count("budget_spent"),
    }
