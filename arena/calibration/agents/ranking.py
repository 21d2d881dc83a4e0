# mypy: ignore-errors
"""Ranks what several searches find by weighted words, as search engines do, and reads the best in full."""

import itertools
import math
import re
import unicodedata

K1, B = 1.4, 0.6
TOKEN = re.compile(r"\w+")


def normal(text):
    plain = unicodedata.normalize("NFKD", text.casefold())
    return [t[:-1] if t.endswith("s") and len(t) > 3 else t for t in TOKEN.findall(plain)]


class Index:
    def __init__(self):
        self.documents = {}
        self.lengths = {}
        self.frequency = {}

    def add(self, key, text):
        if key in self.documents:
            return False
        bag = {}
        for term in normal(text):
            bag[term] = bag.get(term, 0) + 1
        self.documents[key] = bag
        self.lengths[key] = sum(bag.values())
        for term in bag:
            self.frequency[term] = self.frequency.get(term, 0) + 1
        return True

    def weight(self, term):
        n, f = len(self.documents), self.frequency.get(term, 0)
        return math.log1p((n - f + 0.5) / (f + 0.5))

    def score(self, key, terms):
        mean = sum(self.lengths.values()) / len(self.lengths)
        bag, length = self.documents[key], self.lengths[key]
        total = 0.0
        for term in terms:
            tf = bag.get(term, 0)
            total += self.weight(term) * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / mean))
        return total

    def best(self, terms, limit):
        order = sorted(self.documents, key=lambda key: self.score(key, terms), reverse=True)
        return order[:limit]


def searches(terms):
    yield " ".join(terms)
    for size in (4, 3, 2):
        for chosen in itertools.islice(itertools.combinations(terms, size), 4):
            yield " ".join(chosen)


def flatten(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from flatten(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from flatten(inner)
    elif value is not None:
        yield str(value)


def solve(problem, tools, llm):
    terms = list(dict.fromkeys(t for t in normal(problem.query) if len(t) > 2))
    titles = Index()
    for query in searches(terms):
        fresh = sum(titles.add(p["product_id"], p["title"]) for p in tools.find_product(q=query, page=1))
        if fresh == 0 and len(titles.documents) >= 20:
            break
    if not titles.documents:
        return tools.terminate(status="failure")
    pages = Index()
    shortlist = titles.best(terms, 6)
    for detail in tools.view_product_information(product_ids=",".join(shortlist)):
        pages.add(detail["product_id"], " ".join(flatten(detail)))
    tools.recommend_product(product_ids=pages.best(terms, 1)[0])
    return tools.terminate(status="success")
