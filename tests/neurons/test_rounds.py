from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from neurons.rounds import next_boundary

moments = st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))
intervals = st.timedeltas(timedelta(seconds=1), timedelta(days=30))


@given(moments, intervals)
def test_the_next_boundary_is_ahead_by_at_most_one_interval(now: datetime, every: timedelta) -> None:
    assert timedelta(0) < next_boundary(now, every) - now <= every


@given(moments, moments, intervals)
def test_validators_that_look_at_other_times_agree_on_boundaries(
    one: datetime, other: datetime, every: timedelta
) -> None:
    between = next_boundary(one, every) - next_boundary(other, every)
    assert between % every == timedelta(0)


def test_daily_boundaries_are_at_midnight_utc() -> None:
    now = datetime(2026, 5, 4, 0, 0, tzinfo=UTC)
    assert next_boundary(now, timedelta(days=1)) == datetime(2026, 5, 5, tzinfo=UTC)
