"""Voucher arithmetic, exact.

Money is taken as the decimal that was written, never as its binary neighbour: 0.1 + 0.2 is 0.3 here, so no
basket misses its budget by a rounding error. Rules: ShoppingBench (arXiv 2508.04266) and the production
scorer of subnet 15, which agree. The problem text says a total must *exceed* the threshold; the rule, there
and here, is that reaching it is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def money(value: float) -> Decimal:
    """`value` as the decimal a person reads."""
    return Decimal(str(value))


def total(prices: Iterable[float]) -> Decimal:
    """The exact sum of `prices`."""
    return sum((money(price) for price in prices), Decimal(0))


class Voucher(BaseModel):
    """A voucher and the budget it must bring a basket under, as ShoppingBench writes them (PHP).

    `platform` applies to any basket; `shop` only to one whose products come from a single shop.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    voucher_type: Literal["platform", "shop"]
    discount_type: Literal["fixed", "percentage"]
    threshold: Amount
    budget: Amount
    face_value: Amount | None = None
    """Of a fixed discount."""
    discount: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of a percentage discount, as a fraction."""
    cap: Amount | None = None
    """The most a percentage discount takes off."""
    price_after_voucher: Amount | None = None
    """What the intended basket costs after the voucher. Not used in scoring."""

    @model_validator(mode="after")
    def _has_its_amount(self) -> Voucher:
        if self.discount_type == "fixed" and self.face_value is None:
            raise ValueError("a fixed voucher needs face_value")
        if self.discount_type == "percentage" and (self.discount is None or self.cap is None):
            raise ValueError("a percentage voucher needs discount and cap")
        return self

    def after(self, price: Decimal) -> Decimal:
        """What `price` becomes once the voucher is taken off, its conditions met."""
        if self.discount_type == "fixed":
            return price - money(self.face_value or 0)
        reduced = price * (1 - money(self.discount or 0))
        return max(reduced, price - money(self.cap or 0))

    def usable(self, price: Decimal, shops: int) -> bool:
        """Whether a basket of `price` from `shops` different shops meets the voucher's conditions."""
        return (self.voucher_type == "platform" or shops == 1) and price >= money(self.threshold)

    def affordable(self, price: Decimal, shops: int) -> bool:
        """Whether such a basket fits the budget, with the voucher where it applies."""
        budget = money(self.budget)
        return price <= budget or (self.usable(price, shops) and self.after(price) <= budget)

    def price_before(self) -> Decimal | None:
        """The basket price that the voucher brings to `price_after_voucher`; None when that is not given."""
        if self.price_after_voucher is None:
            return None
        reduced = money(self.price_after_voucher)
        if self.discount_type == "fixed":
            return reduced + money(self.face_value or 0)
        fraction, cap = money(self.discount or 0), money(self.cap or 0)
        if fraction < 1 and reduced / (1 - fraction) * fraction <= cap:
            return reduced / (1 - fraction)
        return reduced + cap
