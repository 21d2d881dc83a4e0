"""What a query asks for, in a form that can be checked: bounds, services, a budget, a period, other figures.

Read from the query's own words, by patterns that cover ShoppingBench's phrasings and plain ones. What is not
recognised is simply not checked: a judge that misread a query would be worse than one that asks less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from judge import lexicon
from judge.figures import figures

_NUMBER = r"(?:php\s?|₱\s?)?`?(?<![\d-])(\d[\d,]*(?:\.\d+)?)(?![\d-]*-\d)`?"
_RANGE = re.compile(
    rf"\b(?:between|from|of|range)\s+{_NUMBER}(?:\s*(?:php|pesos?))?\s+(?:and|to)\s+{_NUMBER}"
    r"\s*(?P<unit>php|pesos?)?",
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
_DASHED = re.compile(rf"(?<![\w-]){_NUMBER}\s?[-–]\s?{_NUMBER}\s*(?P<unit>php|pesos?)", re.IGNORECASE)
_PLAIN = re.compile(r"\s*(?:[,.;:!?)]|$|and\b|with\b|please\b|from\b)", re.IGNORECASE)
"""What may follow a bound that has no unit; a unit would make it a size."""
_PLAIN_BOUND = 50
"""A bound without a unit is a price from here on."""
_BUDGET = re.compile(
    rf"\bbudget\b(?:[^.`\d]{{0,30}}?\b(?:is|of|for)|:)?\s+(?:only\s+)?{_NUMBER}"
    rf"|\b(?:can|could|want\s+to|will)\s+(?:only\s+)?spend\s+(?:up\s+to\s+|at\s+most\s+)?{_NUMBER}",
    re.IGNORECASE,
)
_VOUCHER = re.compile(r"\b(?:voucher|coupon|discount)\b", re.IGNORECASE)
_THRESHOLD = re.compile(
    rf"\btotal\b[^.`\d]{{0,60}}?(?:exceeds|exceeding|over|above|at\s+least|reaches)\s+{_NUMBER}",
    re.IGNORECASE,
)
_FIXED = re.compile(rf"fixed\s+discount\s+of\s+{_NUMBER}|{_NUMBER}\s*(?:php|pesos?)?\s+off\b", re.IGNORECASE)
_PERCENT = re.compile(
    r"percentage\s+discount\s+of\s+`?([\d.]+)\s*%|([\d.]+)\s*%`?\s*(?:off|discount)", re.IGNORECASE
)
_CAP = re.compile(
    rf"\b(?:at\s+most|up\s+to|capped\s+at|cap\s+of|maximum(?:\s+of)?)\s+{_NUMBER}", re.IGNORECASE
)
_ORDINAL = re.compile(r"(?:^|(?<=[\s.:]))\d{1,2}[.)]\s")
_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}(?:-\d{2})?(?!\d)")
_SERVICES = {
    "official": r"\blazmall\b|\bofficial\b",
    "freeShipping": r"\bfree\s?-?(?:shipping|delivery)\b"
    r"|\b(?:complimentary|no[- ]cost)\s+(?:shipping|delivery)\b"
    r"|\bships?\s+(?:for\s+)?free\b",
    "COD": r"\bcod\b|\b(?:cash|pay(?:ment)?)\s+(?:on|upon)\s+delivery\b",
    "flashsale": r"\blazflash\b|\bflash\s?-?(?:sale|deal)s?\b",
}
_SPOKEN_ELSEWHERE = {
    "official": r"\b(?:o[f]{1,2}icial|offiziell|officiel|ufficiale|opisyal|resmi)"
    r"|官方|旗舰|公式|공식|официальн",
    "freeShipping": r"\benv[ií]o\s+gratis|\blivraison\s+gratuite|\bfrete\s+gr[aá]tis"
    r"|\b(?:kostenlos\w*|gratis)\W?versand"
    r"|\bversandkostenfrei|\bspedizione\s+gratuita|\blibreng?\s+(?:ang\s+)?\w+|\bgratis\s+ongkir"
    r"|包邮|免运费|免费(?:配送|送货)"
    r"|送料無料|무료\s?배송|бесплатн\w+\s+доставк|\bno\s+shipping\s+(?:fee|cost)",
    "COD": r"\bpa(?:id|yable)\s+(?:on|upon|at)\s+delivery|货到付款|\bcontra\s?-?(?:re)?e(?:mbolso|ntrega)"
    r"|\bnachnahme"
    r"|\bpaiement\s+à\s+la\s+livraison|\bcontrassegno|代引|착불|при\s+получении|\bbayad\s+(?:sa|pag)",
    "flashsale": r"限时|闪购|タイムセール",
}
_ASKED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _SERVICES.items()}
_SPOKEN = {
    name: re.compile(f"{pattern}|{_SPOKEN_ELSEWHERE[name]}", re.IGNORECASE)
    for name, pattern in _SERVICES.items()
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
    """The checkable part of a query. `services` are named as in the shop's results.

    `period` says that the query names days, months or a quarter. `others` are its figures that are no bound,
    budget, year or day: sizes, counts, percentages.
    """

    prices: tuple[PriceRange, ...]
    services: tuple[str, ...]
    budget: Budget | None
    period: bool
    others: tuple[float, ...]


def constraints(query: str) -> Constraints:
    """Read the constraints of a query; sentences in it that speak to a judge are none."""
    query = " ".join(s for s in re.split(r"(?<=[.!?)])\s+|\n", query) if not lexicon.TO_A_JUDGE.search(s))
    wish = _BUDGET.sub(" ", query.partition("My budget")[0]) if _BUDGET.search(query) else query
    prices, budget = _price_ranges(_without_voucher(wish)), _budget(query)
    period = bool(_DAY.search(query) or lexicon.months(query) or lexicon.A_QUARTER.search(query))
    taken = {bound for price in prices for bound in price.bounds}
    if budget is not None:
        taken |= {n for n in (budget.amount, budget.threshold, budget.fixed, budget.cap) if n is not None}
    others = tuple(
        figure.value
        for figure in figures(_ORDINAL.sub(" ", _DAY.sub(" ", _without_voucher(wish))))
        if figure.value not in taken and not (period and 1900 <= figure.value <= 2100) and not figure.percent
    )
    return Constraints(prices, services_named(wish), budget, period, others)


def services_named(text: str) -> tuple[str, ...]:
    """The services that a query asks for, in a fixed order."""
    return tuple(name for name, pattern in _ASKED.items() if pattern.search(text))


def services_spoken_of(text: str) -> tuple[str, ...]:
    """The services that a piece of reasoning speaks of, in the languages that models think in."""
    return tuple(name for name, pattern in _SPOKEN.items() if pattern.search(text))


def _without_voucher(wish: str) -> str:
    """The wish without the rules of a voucher, whose bounds are not those of a price."""
    return ". ".join(part for part in re.split(r"(?<=[.!?])\s+", wish) if not _VOUCHER.search(part))


def _price_ranges(wish: str) -> tuple[PriceRange, ...]:
    found: list[tuple[int, PriceRange]] = []
    taken: list[tuple[int, int]] = []
    for match in (*_RANGE.finditer(wish), *_DASHED.finditer(wish)):
        if _speaks_of_price(wish, match):
            found.append((match.start(), PriceRange(_number(match.group(1)), _number(match.group(2)))))
        taken.append(match.span())
    for pattern, lower in ((_ABOVE, True), (_BELOW, False)):
        for match in pattern.finditer(wish):
            inside = any(start <= match.start() < end for start, end in taken)
            bound = _number(match.group(1))
            plain = bound >= _PLAIN_BOUND and _PLAIN.match(wish, match.end()) is not None
            if inside or not (plain or _speaks_of_price(wish, match)):
                continue
            found.append((match.start(), PriceRange(bound, None) if lower else PriceRange(None, bound)))
    return tuple(price_range for _, price_range in sorted(found, key=lambda item: item[0]))


def _speaks_of_price(wish: str, match: re.Match[str]) -> bool:
    before = wish[max(0, match.start() - 30) : match.start()]
    return bool(match.group("unit") or "₱" in match.group() or _PRICE_WORD.search(before + match.group()))


def _budget(query: str) -> Budget | None:
    match = _BUDGET.search(query)
    if match is None:
        return None
    voucher = query if _VOUCHER.search(query) else ""
    threshold, percent = _THRESHOLD.search(voucher), _PERCENT.search(voucher)
    fixed = None if percent else _FIXED.search(voucher)
    cap = _CAP.search(voucher, percent.end()) if percent else None
    return Budget(
        amount=_first_number(match),
        same_shop="same shop" in query[match.start() :].lower(),
        threshold=_first_number(threshold) if threshold else (0.0 if fixed or percent else None),
        fixed=_first_number(fixed) if fixed else None,
        share=_first_number(percent) / 100 if percent else None,
        cap=_first_number(cap) if cap else None,
    )


def _first_number(match: re.Match[str]) -> float:
    return next(_number(group) for group in match.groups() if group)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
