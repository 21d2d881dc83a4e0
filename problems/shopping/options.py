"""How a shopping suite is played and scored, where there is a choice.

The options stand in the suite's manifest: two suites with other options are other suites, and what was scored
under one is not compared with what was scored under the other.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ShoppingOptions(BaseModel):
    """The choices of one suite; the defaults are what races use."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exhaustive_sort: bool = False
    """Sort all matches, and not only the 50 best by relevance as ShoppingBench's server does."""
    parity: Literal["shoppingbench"] | None = None
    """Score as ShoppingBench's own code does where it differs: titles count as the same from 0.5 on, and a
    web problem's answer may stand anywhere in title or description, as any part of a word."""
