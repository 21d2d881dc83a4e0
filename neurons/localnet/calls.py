"""What a call is, and what becomes of it: events, or a failure by the name that the pallet gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neurons.localnet.subnet import PALLET


class DispatchFailure(Exception):
    """A call that was included in a block and failed there, by pallet and error name."""

    def __init__(self, name: str, pallet: str = PALLET) -> None:
        super().__init__(f"{pallet}.{name}")
        self.pallet = pallet
        self.name = name


@dataclass(frozen=True, slots=True)
class Event:
    """An event that a call, or the end of a block, deposits."""

    pallet: str
    name: str
    attributes: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its signer and the block that executes it."""

    signer: str
    block: int
    arguments: Mapping[str, Any]
