"""The script searches and decides when to stop; the model is only asked to pick from a list.

Useful for a miner whose model is weak, but every tool call is the script's: such a trace teaches a model how
to pick, not how to shop.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from agent_kit import Llm, Problem, Tools  # type: ignore[import-not-found]

MODEL = "default"
PAGES = (1, 2)
SHORTLIST = 8

ASK = """Pick the product that fulfils this request best, and say why. Begin with its id.

{query}

{candidates}"""


def solve(problem: Problem, tools: Tools, llm: Llm) -> None:
    query = problem.query.split("\n\nMy budget")[0]
    found: dict[str, dict[str, Any]] = {}
    for page in PAGES:
        for product in tools.find_product(q=query, page=page):
            found.setdefault(product["product_id"], product)
    shortlist = list(found)[:SHORTLIST]
    if shortlist:
        for detail in tools.view_product_information(product_ids=",".join(shortlist)):
            found[detail["product_id"]].update(
                attributes=detail["attributes"], sku_options=detail["sku_options"]
            )
        candidates = json.dumps([found[product_id] for product_id in shortlist], ensure_ascii=False)
        asked = ASK.format(query=query, candidates=candidates)
        answer = llm.chat([{"role": "user", "content": asked}], model=MODEL)
        picked = first_of(shortlist, answer.get("content") or "")
        tools.recommend_product(product_ids=picked)
    tools.terminate(status="success" if shortlist else "failure")


def first_of(ids: Sequence[str], text: str) -> str:
    """The first of `ids` that the text names; the first of all when it names none."""
    return next((word for word in re.findall(r"\w+", text) if word in ids), ids[0])
