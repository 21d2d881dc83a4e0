from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distill.split import Side, Split, SplitLeak, split

CLUSTERS = st.sets(st.text(max_size=6), max_size=40)
FRACTIONS = st.floats(min_value=0.01, max_value=0.99)
SEEDS = st.integers(min_value=0, max_value=9)


@given(CLUSTERS, FRACTIONS, SEEDS)
def test_every_cluster_lies_on_exactly_one_side_and_no_side_is_empty(
    clusters: set[str], fraction: float, seed: int
) -> None:
    found = split(clusters, heldout_fraction=fraction, seed=seed)
    assert set(found.train) | set(found.heldout) == clusters
    assert not set(found.train) & set(found.heldout)
    if len(clusters) >= 2:
        assert found.train
        assert found.heldout


@given(st.lists(st.text(max_size=6), max_size=20), FRACTIONS, SEEDS)
def test_the_split_does_not_depend_on_the_order_of_clusters(
    clusters: list[str], fraction: float, seed: int
) -> None:
    forward = split(clusters, heldout_fraction=fraction, seed=seed)
    assert forward == split(reversed(clusters), heldout_fraction=fraction, seed=seed)


@given(st.sets(st.integers(), min_size=30, max_size=60), st.sets(st.integers(), max_size=20), SEEDS)
def test_a_cluster_keeps_its_side_when_the_corpus_grows(old: set[int], new: set[int], seed: int) -> None:
    small = split(map(str, old), heldout_fraction=0.5, seed=seed)
    large = split(map(str, old | new), heldout_fraction=0.5, seed=seed)
    assert set(small.heldout) <= set(large.heldout)
    assert set(small.train) <= set(large.train)


@given(st.dictionaries(st.text(max_size=3), st.sampled_from(["train", "heldout"])), CLUSTERS)
def test_a_side_that_was_settled_is_kept(settled: dict[str, Side], clusters: set[str]) -> None:
    found = split(clusters, heldout_fraction=0.5, seed=0, settled=settled)
    assert all(found.side(cluster) == settled[cluster] for cluster in clusters & settled.keys())


def test_a_cluster_on_both_sides_is_refused() -> None:
    with pytest.raises(SplitLeak, match="both trained on and held out"):
        Split(train=("a", "b"), heldout=("b",))


def test_a_fraction_that_would_leave_a_side_empty_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        split(["a"], heldout_fraction=1.0, seed=0)
