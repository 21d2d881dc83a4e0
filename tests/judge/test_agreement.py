"""The figures of agreement against a second way to compute each, case by case."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.agreement import (
    Rated,
    agreement,
    exact_agreement,
    interval,
    mean_absolute_error,
    share,
    table,
    weighted_kappa,
)
from judge.rubric import RUBRIC

LEVELS = len(RUBRIC.gates) + 1
GRADES = [RUBRIC.grade_after(passed) for passed in range(LEVELS)]
ANY = st.lists(
    st.builds(Rated, label=st.integers(0, LEVELS - 1), said=st.one_of(st.none(), st.integers(0, LEVELS - 1))),
    max_size=40,
)


def _answered(rated: list[Rated]) -> list[tuple[int, int]]:
    return [(one.label, one.said) for one in rated if one.said is not None]


@given(ANY)
def test_kappa_is_one_less_observed_over_chance_disagreement_of_all_pairs(rated: list[Rated]) -> None:
    pairs = _answered(rated)
    observed = sum((a - b) ** 2 for a, b in pairs) * len(pairs)
    chance = sum((a - b) ** 2 for a, _ in pairs for _, b in pairs)
    found = weighted_kappa(table(rated, LEVELS))
    if chance == 0:
        assert found is None
    else:
        assert found == pytest.approx(float(1 - Fraction(observed, chance)), abs=1e-12)


@given(ANY)
def test_exact_agreement_and_error_are_means_over_what_was_answered(rated: list[Rated]) -> None:
    pairs = _answered(rated)
    counts = table(rated, LEVELS)
    if not pairs:
        assert exact_agreement(counts) is None
        assert mean_absolute_error(counts, GRADES) is None
        return
    assert exact_agreement(counts) == pytest.approx(fmean(a == b for a, b in pairs))
    error = fmean(abs(GRADES[a] - GRADES[b]) for a, b in pairs)
    assert mean_absolute_error(counts, GRADES) == pytest.approx(error)


@settings(max_examples=30)
@given(ANY)
def test_gates_and_abstentions_are_counted_case_by_case(rated: list[Rated]) -> None:
    found = agreement(rated, RUBRIC, seed=1, draws=20)
    pairs = _answered(rated)
    assert (found.n, found.unanswered) == (len(rated), len(rated) - len(pairs))
    assert found.abstained.value == (pytest.approx(found.unanswered / found.n) if rated else None)
    for needed, gate in enumerate(found.gates, start=1):
        said = [(label >= needed, judge >= needed) for label, judge in pairs]
        assert gate.gate == RUBRIC.gates[needed - 1].name
        assert gate.tp == said.count((True, True))
        assert gate.fp == said.count((False, True))
        assert gate.fn == said.count((True, False))
        assert gate.tn == said.count((False, False))


@given(ANY, st.randoms(use_true_random=False))
def test_the_order_of_the_cases_does_not_matter(rated: list[Rated], chooser: random.Random) -> None:
    shuffled = list(rated)
    chooser.shuffle(shuffled)
    assert agreement(rated, RUBRIC, seed=3, draws=10) == agreement(shuffled, RUBRIC, seed=3, draws=10)


@settings(max_examples=30)
@given(ANY, st.integers(0, 2**32))
def test_an_interval_is_repeatable_and_ordered(rated: list[Rated], seed: int) -> None:
    found = agreement(rated, RUBRIC, seed=seed, draws=50)
    assert found == agreement(rated, RUBRIC, seed=seed, draws=50)
    for estimate in (found.exact, found.kappa, found.error, found.abstained):
        if estimate.low is not None and estimate.high is not None:
            assert estimate.low <= estimate.high


def test_an_interval_is_that_of_drawing_cases_with_replacement() -> None:
    rated = [Rated(i % LEVELS, i % LEVELS if i % 4 else (i + 1) % LEVELS) for i in range(120)]
    found = interval(table(rated, LEVELS), exact_agreement, seed=5)
    chooser = random.Random(5)
    drawn = sorted(
        fmean(one.label == one.said for one in chooser.choices(rated, k=len(rated))) for _ in range(2000)
    )
    assert found.value == 0.75
    assert found.low == pytest.approx(drawn[50], abs=0.02)
    assert found.high == pytest.approx(drawn[1949], abs=0.02)


def test_known_values_of_kappa() -> None:
    """Full agreement is 1, answers turned upside down -1, and one answer for everything 0."""
    rated = [Rated(level, level) for level in range(LEVELS)]
    assert weighted_kappa(table(rated, LEVELS)) == 1.0
    turned = [replace(one, said=LEVELS - 1 - one.label) for one in rated]
    assert weighted_kappa(table(turned, LEVELS)) == pytest.approx(-1.0)
    constant = [replace(one, said=3) for one in rated]
    assert weighted_kappa(table(constant, LEVELS)) == pytest.approx(0.0)


@given(st.integers(0, 300), st.integers(1, 300))
def test_the_ends_of_a_share_are_where_a_test_of_the_share_just_fails(successes: int, n: int) -> None:
    found = share(min(successes, n), n)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert abs(found.value - end) == pytest.approx(1.959964 * (end * (1 - end) / n) ** 0.5, rel=1e-5)


def test_a_share_of_nothing_is_not_known_and_an_impossible_one_is_refused() -> None:
    assert share(0, 0).value is None
    with pytest.raises(ValueError, match="no share"):
        share(2, 1)


@pytest.mark.parametrize("bad", [Rated(LEVELS, 0), Rated(-1, 0), Rated(0, LEVELS), Rated(0, -1)])
def test_a_number_of_gates_that_there_are_not_is_refused(bad: Rated) -> None:
    with pytest.raises(ValueError, match="0 to 5"):
        table([bad], LEVELS)
