"""A budget and its voucher, as ShoppingBench's requests write their rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BUDGET = re.compile(r"\bbudget\s+(?:is|of)\s+(?:only\s+)?`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_THRESHOLD = re.compile(r"exceeds\s+`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s+discount\s+of\s+`?([\d,]+(?:\.\d+)?)`?", re.IGNORECASE)
_PERCENT = re.compile(
    r"percentage\s+discount\s+of\s+`?([\d.]+)\s*%`?(?:\s+with\s+a\s+cap\s+of\s+`?([\d,]+(?:\.\d+)?)`?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Voucher:
    """A budget in PHP and the voucher that goes with it."""

    budget: float
    same_shop: bool = False
    threshold: float | None = None
    fixed: float | None = None
    share: float | None = None
    cap: float | None = None

    def discount(self, total: float, *, one_shop: bool) -> float:
        """What the voucher takes off a basket of `total`."""
        if self.threshold is None or total < self.threshold or (self.same_shop and not one_shop):
            return 0.0
        if self.fixed is not None:
            return min(self.fixed, total)
        if self.share is None:
            return 0.0
        off = total * self.share
        return off if self.cap is None else min(off, self.cap)


def read_voucher(rules: str) -> Voucher | None:
    """The budget and voucher in a text, None when it names no budget."""
    budget = _BUDGET.search(rules)
    if budget is None:
        return None
    threshold, fixed, percent = _THRESHOLD.search(rules), _FIXED.search(rules), _PERCENT.search(rules)
    return Voucher(
        budget=_number(budget.group(1)),
        same_shop="same shop" in rules.lower(),
        threshold=_number(threshold.group(1)) if threshold else None,
        fixed=_number(fixed.group(1)) if fixed else None,
        share=float(percent.group(1)) / 100 if percent else None,
        cap=_number(percent.group(2)) if percent and percent.group(2) else None,
    )


def _number(text: str) -> float:
    return float(text.replace(",", ""))
