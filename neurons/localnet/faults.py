"""Faults on demand: what a node on the internet does to its clients, done here when asked for.

A fault waits for the requests (or calls) that it is for, is used up `times` times, and is gone. Nothing is
in the way unless one was injected, and none can be unless the node was started with `--faults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

KINDS: Mapping[str, str] = {
    "drop": "the connection is cut; the request was not carried out",
    "lose": "the request is carried out; the connection is cut before the answer",
    "hang": "the request is never answered",
    "slow": "the answer comes `seconds` late, and with it all later ones of this connection",
    "refuse": "the answer is the JSON-RPC error of an overloaded node",
    "reject": "the pool does not take the extrinsic (author_submit*)",
    "fail": "a call, named as Pallet.function, is included and fails with `error`, named as Pallet.Name",
    "missing": "the storage `entry`, named as Pallet.Item, reads as absent",
}
_LONGEST_S = 600.0
_MOST_WAITING = 64


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `method` is a pattern of RPC methods (of calls, for "fail"); `times` 0 means until cleared.

    Raises ValueError when it makes no sense.
    """

    kind: str
    method: str = "*"
    times: int = 1
    seconds: float = 0.0
    error: str = ""
    entry: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no fault {self.kind!r}; there are {', '.join(KINDS)}")
        if self.times < 0:
            raise ValueError("times must be 0 (until cleared) or more")
        if not 0 <= self.seconds <= _LONGEST_S:
            raise ValueError(f"seconds must be within 0..{_LONGEST_S:.0f}")
        if self.kind == "slow" and not self.seconds:
            raise ValueError("a slow answer needs seconds")
        for kind, given, name in (("fail", self.error, "an error"), ("missing", self.entry, "an entry")):
            if self.kind == kind and given.count(".") != 1:
                raise ValueError(f"the fault {kind!r} needs {name}, named as Pallet.Name")

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Fault:
        """A fault from its JSON form. Raises ValueError."""
        unknown = set(asked) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"a fault has no {sorted(unknown)}")
        return cls(**asked)


class Faults:
    """The faults that wait for their requests, the first injected first."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def inject(self, fault: Fault) -> None:
        """Have a fault wait. Raises ValueError when too many do."""
        if len(self._waiting) >= _MOST_WAITING:
            raise ValueError(f"{_MOST_WAITING} faults are waiting already: clear them first")
        self._waiting.append(fault)

    def clear(self) -> int:
        """Forget all; returns how many were waiting."""
        count, self._waiting = len(self._waiting), []
        return count

    def take(self, name: str, *kinds: str) -> Fault | None:
        """The first fault of these kinds for this method or call, used up by one; or None."""
        for index, fault in enumerate(self._waiting):
            if fault.kind in kinds and fnmatchcase(name, fault.method):
                if fault.times == 1:
                    del self._waiting[index]
                elif fault.times:
                    self._waiting[index] = replace(fault, times=fault.times - 1)
                return fault
        return None

    def missing(self) -> list[str]:
        """Entries that read as absent."""
        return [fault.entry for fault in self._waiting if fault.kind == "missing"]

    def shown(self) -> list[dict[str, Any]]:
        """What waits, in its JSON form."""
        return [{f.name: getattr(fault, f.name) for f in fields(fault)} for fault in self._waiting]
