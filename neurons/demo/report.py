"""What the demo says at its end: a value, printable for people and as JSON."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from arena.leaderboard import Board


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class Problems(_Value):
    """What was played. Tasks are counted by file when they were imported."""

    source: str
    catalog_products: int
    records: str
    """What these are: products, or a ledger's transactions."""
    public: dict[str, int]
    pool: dict[str, int]
    """Problems by category."""
    drawn: dict[str, int]
    loaded: dict[str, int]
    """Tasks by file; empty for generated problems."""
    refused: dict[str, int]
    """Tasks that cannot be played, by reason."""


class Episodes(_Value):
    """All episodes of the race, qualifying included. `retried`: attempts that could not be scored."""

    verdicts: dict[str, int]
    retried: int
    model_emitted_calls: int
    scripted_calls: int
    failed_for: dict[str, int]
    """Reasons of the failed ones."""


class Weights(_Value):
    """u16 weights by uid, as sent and as read back from the chain, with who holds each uid."""

    netuid: int
    sent: dict[int, int]
    read_back: dict[int, int]
    confirmed: bool
    block_hash: str | None
    holders: dict[int, str]


class Trained(_Value):
    """The corpus and the model."""

    funnel: dict[str, Any]
    rows: dict[str, Any]
    clusters: dict[str, int]
    before: dict[str, Any]
    after: dict[str, Any]
    change: dict[str, Any]


class NotTrained(_Value):
    """The corpus was too small to train on and to measure with."""

    reason: str
    funnel: dict[str, Any]


class DemoReport(_Value):
    """The whole demo."""

    seed: int
    sandbox: str
    model: str
    problems: Problems
    episodes: Episodes
    qualifying: Board
    race: Board
    promotion: dict[str, Any]
    payout: dict[str, Any]
    weights: Weights
    training: Trained | NotTrained
    artefacts: dict[str, Path]
    settled_at: datetime
    wall_s: float
    """Of this process; a demo that was started again counts from its last start."""
