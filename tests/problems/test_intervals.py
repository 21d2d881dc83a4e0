from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.intervals import clustered_ratio_interval, wilson


def test_the_interval_is_wilsons() -> None:
    found = wilson(8, 10)
    assert [found.low, found.high] == pytest.approx([0.4901625, 0.9433178], abs=1e-6)


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_interval_holds_the_share_and_stays_within_bounds(one: int, other: int) -> None:
    found = wilson(min(one, other), max(one, other))
    assert 0.0 <= found.low <= found.high <= 1.0
    if found.share is not None:
        assert found.low <= found.share <= found.high


def test_no_trials_give_no_share() -> None:
    assert wilson(0, 0).share is None


def test_the_clustered_interval_is_reproducible_and_surrounds_the_ratio() -> None:
    totals = {str(i): (float(i % 5), 2.0) for i in range(20)}
    found = clustered_ratio_interval(totals, seed=1)
    assert found == clustered_ratio_interval(dict(reversed(totals.items())), seed=1)
    assert found is not None
    assert found[0] < 1.0 < found[1]


def test_one_cluster_says_nothing_of_its_spread() -> None:
    assert clustered_ratio_interval({"a": (1.0, 2.0)}, seed=0) is None
