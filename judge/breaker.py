"""A circuit breaker and a pace: when an endpoint may be asked. Pure but for the clock they are given.

The breaker opens after so many faults in a row and then lets nothing through for a pause; after it, one
request goes through as a probe, whose outcome closes the breaker or opens it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

PACE_WINDOW_S = 60.0

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Of one endpoint. `clock` gives seconds that never go back."""

    def __init__(self, *, faults_to_open: int, pause_s: float, clock: Callable[[], float]) -> None:
        if faults_to_open < 1 or pause_s <= 0:
            raise ValueError("a breaker opens after at least one fault, for a pause above zero")
        self._faults_to_open = faults_to_open
        self._pause_s = pause_s
        self._clock = clock
        self._faults = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> State:
        """Closed: ask away. Open: do not. Half-open: one request may probe."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half-open"

    def admit(self) -> bool:
        """Whether a request may be sent now. A yes must be followed by `succeeded`, `failed` or `unsent`."""
        if self.state == "closed":
            return True
        if self.state == "open" or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """The endpoint answered."""
        self._faults = 0
        self._open_until = None
        self._probing = False

    def failed(self) -> None:
        """The endpoint did not answer as it should."""
        self._faults += 1
        if self._probing or self._faults >= self._faults_to_open:
            self._open_until = self._clock() + self._pause_s
        self._probing = False

    def unsent(self) -> None:
        """The admitted request was never sent; another may probe in its place."""
        self._probing = False


class Pace:
    """At most `per_minute` requests in any 60 s. `clock` gives seconds that never go back."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float]) -> None:
        if per_minute < 1:
            raise ValueError("an endpoint must be allowed at least one request a minute")
        self._clock = clock
        self._started: deque[float] = deque(maxlen=per_minute)

    def wait_s(self) -> float:
        """Takes the next place in line; seconds to wait for it."""
        now = self._clock()
        full = len(self._started) == self._started.maxlen
        at = max(now, self._started[0] + PACE_WINDOW_S) if full else now
        self._started.append(at)
        return at - now
