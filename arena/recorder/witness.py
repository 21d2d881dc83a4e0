"""What the parts of a recorder share: the log, the meter, and whether the episode is over.

The one thing to know: an episode is over as soon as nothing more can count, either because a final call
succeeded or because we failed it (`fault`). From then on every request is refused.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from arena.recorder.budget import Budget, Meter
from storage.events import EventKind, EventLog


class Witness:
    """The state of one episode. It belongs to one event loop."""

    def __init__(
        self, budget: Budget, clock: Callable[[], float], tick: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives Unix seconds, `tick` seconds that never go back."""
        self.log = EventLog()
        self.meter = Meter(budget)
        self.finished = asyncio.Event()
        self.fault: str | None = None
        """Our own failure, which makes the episode unscored."""
        self.unlogged_refusals = 0
        self._clock = clock
        self._tick = tick
        self._began: float | None = None
        self._logged_refusals = 0

    def begin(self) -> None:
        """The agent runs: from the first call on its time counts."""
        if self._began is None:
            self._began = self._tick()

    def elapsed_s(self) -> float:
        """Seconds since `begin`."""
        return 0.0 if self._began is None else self._tick() - self._began

    def left_s(self) -> float:
        """Seconds that the episode may still take."""
        wall_s = self.meter.budget.wall_s
        return math.inf if wall_s is None else wall_s - self.elapsed_s()

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        return int(self._clock() * 1000)

    def elapsed_ms(self, since_ms: int) -> int:
        """Milliseconds since then, never below zero though the clock be set back."""
        return max(0, self.now_ms() - since_ms)

    def record(self, kind: EventKind, body: dict[str, Any]) -> None:
        """Append an event."""
        self.log.append(kind, body, at_ms=self.now_ms())

    def blob(self, text: str, value: Any) -> str:
        """Store a value once, whose canonical JSON is `text`; its digest."""
        return self.log.written_blob(text, value, at_ms=self.now_ms())

    def refuse(self, what: str, message: str) -> None:
        """Record a request that could not be taken."""
        if self.may_log_refusal():
            self.record("refused", {"what": what, "message": message})

    def may_log_refusal(self) -> bool:
        """Whether a refusal may still be logged; one that may not is counted."""
        if self._logged_refusals < self.meter.budget.logged_refusals:
            self._logged_refusals += 1
            return True
        self.unlogged_refusals += 1
        return False

    def fail(self, message: str) -> None:
        """We failed the episode: nothing in it counts from here on. The first reason is kept."""
        if self.fault is None:
            self.fault = message
        self.finished.set()
