# mypy: ignore-errors
"""Fills a basket under a budget: the cheapest combination from one shop, found by dynamic programming."""

from collections import defaultdict
from dataclasses import dataclass, field

CENTS = 100


@dataclass
class Offer:
    product: str
    shop: str
    cents: int
    wish: int


@dataclass
class Shelf:
    offers: list = field(default_factory=list)

    def put(self, row, wish):
        try:
            cents = round(float(row["price"]) * CENTS)
        except (KeyError, TypeError, ValueError):
            return
        self.offers.append(Offer(row["product_id"], str(row.get("shop_id", "")), cents, wish))

    def by_shop(self):
        shops = defaultdict(lambda: defaultdict(list))
        for offer in self.offers:
            shops[offer.shop][offer.wish].append(offer)
        return shops


def cheapest(stock, wishes):
    chosen, total = [], 0
    for wish in range(wishes):
        if not stock.get(wish):
            return None
        pick = min(stock[wish], key=lambda offer: offer.cents)
        chosen.append(pick)
        total += pick.cents
    return total, chosen


def fullest(stock, wishes, budget):
    """The combination that leaves the least of the budget unspent."""
    reach = {0: []}
    for wish in range(wishes):
        further = {}
        for spent, picks in reach.items():
            for offer in stock.get(wish, ()):
                together = spent + offer.cents
                if together <= budget and together not in further:
                    further[together] = [*picks, offer]
        if not further:
            return None
        reach = dict(sorted(further.items(), reverse=True)[:500])
    spent = max(reach)
    return spent, reach[spent]


def split_wishes(llm, query):
    asked = "Split this request into single products, one a line, without prices.\n\n" + query
    text = llm.chat([{"role": "user", "content": asked}]).get("content") or query
    return [line.strip("-*. \t") for line in text.splitlines() if line.strip("-*. \t")][:5]


def budget_of(query):
    amounts, digits = [], ""
    for c in query + " ":
        if c.isdigit() or (c in ",." and digits):
            digits += c
        elif digits:
            amounts.append(float(digits.replace(",", "").strip(".") or 0))
            digits = ""
    return round(max(amounts) * CENTS) if amounts else None


def solve(problem, tools, llm):
    wishes = split_wishes(llm, problem.query)
    shelf = Shelf()
    for number, wish in enumerate(wishes):
        for page in (1, 2, 3):
            for row in tools.find_product(q=wish, page=page):
                shelf.put(row, number)
    budget = budget_of(problem.query)
    plans = []
    for shop, stock in shelf.by_shop().items():
        plan = cheapest(stock, len(wishes)) if budget is None else fullest(stock, len(wishes), budget)
        if plan is not None:
            plans.append((plan[0], shop, plan[1]))
    if not plans:
        tools.terminate(status="failure")
    else:
        picks = min(plans)[2] if budget is None else max(plans)[2]
        tools.recommend_product(product_ids=",".join(offer.product for offer in picks))
        tools.terminate(status="success")
