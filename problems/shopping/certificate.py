"""What is proven of a problem before anybody may play it, and how.

Money is proven in whole numbers of the smallest unit (centavos; for a percentage, its fractions), apart from
the decimal arithmetic of the rules: two ways that must agree. The same checks tell what is wrong with
problems that others made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from problems.shopping.product import Product
from problems.shopping.vouchers import Voucher

CENTS = 100
"""Of one peso: the smallest unit that a price can have."""


class NotExact(ValueError):
    """An amount is no whole number of centavos."""


@dataclass(frozen=True, slots=True)
class VoucherProof:
    """A basket and its voucher in whole numbers of 1/`scale` of a centavo."""

    scale: int
    before: int
    after: int
    budget: int
    usable: bool
    """Whether the basket's price and shops meet the voucher's conditions."""

    @property
    def affordable(self) -> bool:
        """Whether the basket can be bought within the budget."""
        return self.before <= self.budget or (self.usable and self.after <= self.budget)

    @property
    def needed(self) -> bool:
        """Whether it cannot be bought without the voucher."""
        return self.before > self.budget


def cents(amount: float) -> int:
    """An amount in PHP as centavos. Raises NotExact."""
    exact = Decimal(str(amount)) * CENTS
    if exact != exact.to_integral_value():
        raise NotExact(f"{amount} PHP is no whole number of centavos")
    return int(exact)


def prove(voucher: Voucher, prices: Iterable[float], shops: int) -> VoucherProof:
    """The voucher's arithmetic on a basket from `shops` different shops. Raises NotExact."""
    before = sum(map(cents, prices))
    usable = (voucher.voucher_type == "platform" or shops == 1) and before >= cents(voucher.threshold)
    if voucher.discount_type == "fixed":
        scale, after = 1, before - cents(voucher.face_value or 0)
    else:
        rate, scale = Decimal(str(voucher.discount or 0)).as_integer_ratio()
        after = max(before * (scale - rate), (before - cents(voucher.cap or 0)) * scale)
    return VoucherProof(scale, before * scale, after, cents(voucher.budget) * scale, usable)


def gives_away(query: str, products: Sequence[Product]) -> bool:
    """Whether a title or an id of the answer stands in the query."""
    return id_told(query, [p.product_id for p in products]) or any(
        title_told(query, p.title) for p in products
    )


def title_told(query: str, title: str) -> bool:
    """Whether `query` holds the whole of `title`, as words."""
    return bool(plain(title)) and holds_words(query, title)


def holds_words(text: str, words: str) -> bool:
    """Whether `words` stand in `text` one after another, in any case and punctuation."""
    return f" {plain(words)} " in f" {plain(text)} "


def id_told(query: str, ids: Sequence[str]) -> bool:
    """Whether one of the ids stands in the query."""
    return any(re.search(rf"(?<!\d){re.escape(product_id)}(?!\d)", query) for product_id in ids)


def plain(text: str) -> str:
    """The words of `text` in lower case, with single spaces."""
    return " ".join(re.findall(r"\w+", text.lower()))
