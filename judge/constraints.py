"""What a shopping query asks for, in a form that arithmetic can check: price ranges, services, a budget.

Read from the query's own words, by patterns that cover ShoppingBench's phrasings. What is not recognised is
simply not checked: a judge that misread a query would be worse than one that asks less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"(?:php\s?|₱\s?)?`?(\d[\d,]*(?:\.\d+)?)`?"
_RANGE = re.compile(
    rf"\b(?:between|from|of|range)\s+{_NUMBER}(?:\s*(?:php|pesos?))?\s+(?:and|to)\s+{_NUMBER}\s*(?P<unit>php|pesos?)?",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    rf"\b(?:above|over|more\s+than|greater\s+than|at\s+least|upwards\s+of|starting\s+(?:at|from))\s+{_NUMBER}"
    r"\s*(?P<unit>php|pesos?)?",
    re.IGNORECASE,
)
_BELOW = re.compile(
    rf"\b(?:below|under|less\s+than|at\s+most|up\s+to|no\s+more\s+than)\s+{_NUMBER}\s*(?P<unit>php|pesos?)?",
    re.IGNORECASE,
)
_PRICE_WORD = re.compile(r"\b(?:pric\w*|costs?|costing|php|pesos?)\b|₱", re.IGNORECASE)
_BUDGET = re.compile(r"\bbudget\s+(?:is|of)\s+(?:only\s+)?`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_THRESHOLD = re.compile(r"total\s+price[^.`\d]*exceeds\s+`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s+discount\s+of\s+`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_PERCENT = re.compile(
    r"percentage\s+discount\s+of\s+`?([\d.]+)\s*%`?(?:\s+with\s+a\s+cap\s+of\s+`?([\d,]+(?:\.\d+)?)`?)?",
    re.IGNORECASE,
)
_SERVICES = {
    "official": re.compile(r"\blazmall\b|\bofficial\b", re.IGNORECASE),
    "freeShipping": re.compile(
        r"\bfree\s?-?(?:shipping|delivery)\b|\b(?:complimentary|no[- ]cost)\s+(?:shipping|delivery)\b"
        r"|\bships?\s+(?:for\s+)?free\b",
        re.IGNORECASE,
    ),
    "COD": re.compile(r"\bcod\b|\b(?:cash|pay(?:ment)?)\s+(?:on|upon)\s+delivery\b", re.IGNORECASE),
    "flashsale": re.compile(r"\blazflash\b|\bflash\s?-?(?:sale|deal)s?\b", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class PriceRange:
    """Inclusive bounds in PHP; None where open."""

    low: float | None
    high: float | None

    def holds(self, price: float) -> bool:
        """Whether `price` lies in the range."""
        return (self.low is None or price >= self.low) and (self.high is None or price <= self.high)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds that are set."""
        return tuple(bound for bound in (self.low, self.high) if bound is not None)


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget in PHP, and the voucher that may stretch it (`threshold` None: no voucher was understood)."""

    amount: float
    same_shop: bool
    threshold: float | None
    fixed: float | None
    share: float | None
    cap: float | None

    def to_pay(self, total: float, *, one_shop: bool) -> float:
        """What a basket of `total` costs after the voucher, where the voucher applies to it."""
        if self.threshold is None or total < self.threshold or (self.same_shop and not one_shop):
            return total
        if self.fixed is not None:
            return total - self.fixed
        if self.share is not None:
            discount = total * self.share
            return total - (discount if self.cap is None else min(discount, self.cap))
        return total


@dataclass(frozen=True, slots=True)
class Constraints:
    """The checkable part of a query. `services` are named as in the results."""

    prices: tuple[PriceRange, ...]
    services: tuple[str, ...]
    budget: Budget | None


def constraints(query: str) -> Constraints:
    """Read the constraints of a query."""
    wish, _, _ = query.partition("My budget")
    return Constraints(_price_ranges(wish), services_named(wish), _budget(query))


def services_named(text: str) -> tuple[str, ...]:
    """The services that a text speaks of, in a fixed order."""
    return tuple(name for name, pattern in _SERVICES.items() if pattern.search(text))


def _price_ranges(wish: str) -> tuple[PriceRange, ...]:
    found: list[tuple[int, PriceRange]] = []
    taken: list[tuple[int, int]] = []
    for match in _RANGE.finditer(wish):
        if _speaks_of_price(wish, match):
            found.append((match.start(), PriceRange(_number(match.group(1)), _number(match.group(2)))))
        taken.append(match.span())
    for pattern, lower in ((_ABOVE, True), (_BELOW, False)):
        for match in pattern.finditer(wish):
            inside = any(start <= match.start() < end for start, end in taken)
            if inside or not _speaks_of_price(wish, match):
                continue
            bound = _number(match.group(1))
            found.append((match.start(), PriceRange(bound, None) if lower else PriceRange(None, bound)))
    return tuple(price_range for _, price_range in sorted(found, key=lambda item: item[0]))


def _speaks_of_price(wish: str, match: re.Match[str]) -> bool:
    before = wish[max(0, match.start() - 30) : match.start()]
    return bool(match.group("unit") or "₱" in match.group() or _PRICE_WORD.search(before + match.group()))


def _budget(query: str) -> Budget | None:
    match = _BUDGET.search(query)
    if match is None:
        return None
    threshold, fixed, percent = _THRESHOLD.search(query), _FIXED.search(query), _PERCENT.search(query)
    return Budget(
        amount=_number(match.group(1)),
        same_shop="same shop" in query.partition("My budget")[2].lower(),
        threshold=_number(threshold.group(1)) if threshold else None,
        fixed=_number(fixed.group(1)) if fixed else None,
        share=float(percent.group(1)) / 100 if percent else None,
        cap=_number(percent.group(2)) if percent and percent.group(2) else None,
    )


def _number(text: str) -> float:
    return float(text.replace(",", ""))
