"""When an endpoint may be asked: the breaker and the pace, on a clock of our own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.breaker import Breaker, Pace


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(faults_to_open=3, pause_s=30, clock=clock)


def _open(breaker: Breaker) -> None:
    for _ in range(3):
        assert breaker.admit()
        breaker.failed()
    assert breaker.state == "open"


def test_faults_in_a_row_open_it_for_a_pause(breaker: Breaker, clock: Clock) -> None:
    _open(breaker)
    assert not breaker.admit()
    clock.now += 29.9
    assert not breaker.admit()


def test_a_success_between_faults_keeps_it_closed(breaker: Breaker) -> None:
    for _ in range(3):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.state == "closed"


def test_after_the_pause_one_request_at_a_time_probes(breaker: Breaker, clock: Clock) -> None:
    _open(breaker)
    clock.now += 30
    assert breaker.state == "half-open"
    assert breaker.admit()
    assert not breaker.admit()
    breaker.unsent()
    assert breaker.admit()


def test_the_probe_decides(breaker: Breaker, clock: Clock) -> None:
    _open(breaker)
    clock.now += 30
    assert breaker.admit()
    breaker.failed()
    assert not breaker.admit()
    clock.now += 30
    assert breaker.admit()
    breaker.succeeded()
    assert breaker.state == "closed"


@given(st.integers(1, 5), st.lists(st.floats(0, 40), max_size=40))
def test_no_minute_holds_more_starts_than_allowed(per_minute: int, gaps: list[float]) -> None:
    clock = Clock()
    pace = Pace(per_minute, clock=clock)
    starts = []
    for gap in gaps:
        clock.now += gap
        starts.append(clock.now + pace.wait_s())
    assert starts == sorted(starts)
    for first, later in zip(starts, starts[per_minute:], strict=False):
        assert later - first >= 60 - 1e-6


def test_dangerous_limits_are_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="at least one fault"):
        Breaker(faults_to_open=0, pause_s=1, clock=clock)
    with pytest.raises(ValueError, match="at least one request"):
        Pace(0, clock=clock)
