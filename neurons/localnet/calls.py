"""What a call is, and what becomes of it: events, or a failure by the name that the pallet gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neurons.localnet.subnet import PALLET

_DISPATCH_INFO = {"weight": {"ref_time": 0, "proof_size": 0}, "class": "Normal", "pays_fee": "No"}


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

    def during(self, index: int) -> dict[str, Any]:
        """The record of an event of the extrinsic of that index."""
        return self._record({"ApplyExtrinsic": index})

    def at_end(self) -> dict[str, Any]:
        """The record of an event at the end of a block."""
        return self._record("Finalization")

    def _record(self, phase: object) -> dict[str, Any]:
        return {"phase": phase, "event": {self.pallet: {self.name: self.attributes}}, "topics": []}


def succeeded() -> Event:
    """What ends a call that did what it was to do."""
    return Event("System", "ExtrinsicSuccess", {"dispatch_info": _DISPATCH_INFO})


def failed(error: object) -> Event:
    """What ends a call that did not; `error` is a `DispatchError`."""
    return Event("System", "ExtrinsicFailed", {"dispatch_error": error, "dispatch_info": _DISPATCH_INFO})


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its signer and the block that executes it."""

    signer: str
    block: int
    arguments: Mapping[str, Any]
