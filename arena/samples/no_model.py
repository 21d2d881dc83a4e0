"""No model: words, a price filter and the product whose title shares most words with the request."""

import re

from agent_kit import Llm, Problem, Tools  # type: ignore[import-not-found]

IGNORED = frozenset(
    {
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "for",
        "with",
        "and",
        "or",
        "to",
        "from",
        "by",
        "at",
        "i'm",
        "me",
        "i",
    }
    | {"show", "looking", "find", "need", "want", "shop", "that", "priced", "price", "php", "pesos", "please"}
    | {"above", "below", "between", "more", "less", "than", "over", "under", "can", "you"}
)


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    wish = problem.query.split("\n\nMy budget")[0].lower()
    words = [word for word in re.findall(r"[\w'-]+", wish) if word not in IGNORED]
    search = {"q": " ".join(words), "page": 1}
    if price := price_range(wish):
        search["price"] = price
    found = tools.call("find_product", search) or tools.find_product(q=search["q"], page=1)
    if not found:
        tools.terminate(status="failure")
        return
    best = max(found, key=lambda product: len(set(words) & set(product["title"].lower().split())))
    tools.recommend_product(product_ids=best["product_id"])
    tools.terminate(status="success")


def price_range(wish: str) -> str | None:
    """The first price range of the request as the search tool writes it, or None."""
    if match := re.search(r"(?:between|from) (\d+) (?:and|to) (\d+) (?:php|pesos)", wish):
        return f"{match[1]}-{match[2]}"
    if match := re.search(r"(?:above|more than|over) (\d+) (?:php|pesos)", wish):
        return f"{match[1]}-"
    if match := re.search(r"(?:below|less than|under) (\d+) (?:php|pesos)", wish):
        return f"0-{match[1]}"
    return None
