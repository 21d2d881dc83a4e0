# mypy: ignore-errors
"""Walks a tree of ever wider searches, remembers each, and stops as soon as a model is content."""

import functools
import heapq
import time

DEADLINE_S = 200


class Memory(dict):
    def __init__(self, fetch):
        super().__init__()
        self.fetch, self.hits = fetch, 0

    def __missing__(self, key):
        self[key] = value = self.fetch(*key)
        return value

    def ask(self, *key):
        self.hits += key in self
        return self[key]


def wider(query):
    words = query.split()
    return {" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)) if len(words) > 1}


def content_with(llm, request, row):
    question = (
        f"Request: {request}\nProduct: {row}\nDoes it fulfil the request? Begin with a mark from 0 to 9."
    )
    text = (llm.chat([{"role": "user", "content": question}], max_tokens=120).get("content") or "0").strip()
    return int(text[0]) if text[:1].isdigit() else 0


def explore(memory, judge, start, until):
    frontier, visited, ranked = [(0, start)], set(), []
    while frontier and time.monotonic() < until:
        depth, query = heapq.heappop(frontier)
        if query in visited:
            continue
        visited.add(query)
        rows = memory.ask(query, 1)
        for row in rows[:4]:
            mark = judge(row["product_id"], f"{row['title']} {row['price']}")
            heapq.heappush(ranked, (-mark, depth, row["product_id"]))
            if mark == 9:
                return ranked
        if depth < 3:
            for other in sorted(wider(query) - visited):
                heapq.heappush(frontier, (depth + 1, other))
    return ranked


def solve(problem, tools, llm):
    until = time.monotonic() + DEADLINE_S
    memory = Memory(lambda query, page: tools.find_product(q=query, page=page))

    @functools.cache
    def judge(product_id, shown):
        return content_with(llm, problem.query, shown)

    short = llm.chat([{"role": "user", "content": "In at most six words, what is wanted? " + problem.query}])
    ranked = explore(memory, judge, (short.get("content") or problem.query)[:80], until)
    if not ranked:
        tools.terminate(status="failure")
        return
    tools.recommend_product(product_ids=heapq.heappop(ranked)[2])
    tools.terminate(status="success")
