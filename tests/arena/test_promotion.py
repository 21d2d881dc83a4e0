"""Promotion: the test is the one it claims to be, and no accident of order decides it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.promotion import decide, holm, margin_at, sign_flip
from arena.rules import PromotionRules

RULES = PromotionRules()
scores_1 = st.sampled_from([0.0, 0.15, 0.3, 0.5, 0.65, 1.0])


def by_problem(values: list[float]) -> dict[str, float]:
    return {f"p{i:03}": v for i, v in enumerate(values)}


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=9))
def test_exact_p_value_is_the_share_of_sign_vectors_that_reach_the_sum(gains: list[int]) -> None:
    sums = [
        sum(s * g for s, g in zip(signs, gains, strict=True)) for signs in product((1, -1), repeat=len(gains))
    ]
    expected = sum(s >= sum(gains) for s in sums) / len(sums)
    assert sign_flip(gains, exact_up_to=20, draws=10, seed="x").p_value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=20)
@given(st.lists(st.integers(-50, 50).filter(bool), min_size=10, max_size=14))
def test_drawn_p_value_is_close_to_the_exact_one(gains: list[int]) -> None:
    drawn = sign_flip(gains, exact_up_to=0, draws=20_000, seed="some block")
    assert not drawn.exact
    # Six standard errors of 20,000 draws at p = 1/2.
    assert drawn.p_value == pytest.approx(
        sign_flip(gains, exact_up_to=20, draws=1, seed="").p_value, abs=0.022
    )


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.integers(1, 30), st.data())
def test_a_larger_gain_on_one_problem_never_raises_the_p_value(
    gains: list[int], more: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(gains) - 1))
    better = [g + more if i == index else g for i, g in enumerate(gains)]
    before = sign_flip(gains, exact_up_to=20, draws=1, seed="").p_value
    assert sign_flip(better, exact_up_to=20, draws=1, seed="").p_value <= before


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    assert all(
        adjusted[i] <= adjusted[j]
        for i in range(len(p_values))
        for j in range(len(p_values))
        if p_values[i] < p_values[j]
    )


def test_holm_matches_the_worked_example_of_three() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))


def test_margin_halves_every_half_life_and_stops_at_the_floor() -> None:
    assert [margin_at(h, RULES) for h in (0, 72, 144, 1000)] == [0.05, 0.025, 0.0125, 0.01]


@given(st.lists(scores_1, min_size=1, max_size=40), st.integers(1, 4))
def test_equal_agents_keep_the_champion(values: list[float], challengers: int) -> None:
    names = [f"c{i}" for i in range(challengers)]
    decision = decide(
        scores={"champion": by_problem(values)} | {n: by_problem(values) for n in names},
        champion="champion",
        challengers=names,
        champion_age_h=10_000,
        rules=RULES,
        seed="s",
    )
    assert decision.champion == "champion"
    assert not decision.promoted


@settings(max_examples=30)
@given(st.lists(st.tuples(scores_1, scores_1, scores_1), min_size=1, max_size=30), st.randoms())
def test_the_decision_does_not_depend_on_the_order_of_problems(rows, random) -> None:  # type: ignore[no-untyped-def]
    columns = {n: list(by_problem([r[i] for r in rows]).items()) for i, n in enumerate(("a", "b", "c"))}

    def decision():  # type: ignore[no-untyped-def]
        return decide(
            scores={n: dict(c) for n, c in columns.items()},
            champion="a",
            challengers=["b", "c"],
            champion_age_h=5,
            rules=RULES,
            seed="s",
        )

    before = decision()
    for column in columns.values():
        random.shuffle(column)
    assert decision() == before


def test_a_clearly_better_challenger_is_promoted_with_every_statistic() -> None:
    decision = decide(
        scores={"old": by_problem([0.0] * 10), "new": by_problem([1.0] * 10)},
        champion="old",
        challengers=["new"],
        champion_age_h=0,
        rules=RULES,
        seed="s",
    )
    (challenge,) = decision.challenges
    assert decision.champion == "new"
    assert (challenge.wins, challenge.losses, challenge.differing, challenge.problems) == (10, 0, 10, 10)
    assert challenge.p_value == pytest.approx(1 / 1024)
    assert challenge.exact
    assert challenge.sign_vectors == 1024


def test_a_significant_gain_under_the_margin_does_not_promote() -> None:
    decision = decide(
        scores={"old": by_problem([0.50] * 20), "new": by_problem([0.54] * 20)},
        champion="old",
        challengers=["new"],
        champion_age_h=0,
        rules=RULES,
        seed="s",
    )
    assert decision.challenges[0].significant
    assert not decision.promoted


def test_of_two_equal_challengers_the_earlier_is_promoted() -> None:
    decision = decide(
        scores={"old": by_problem([0.0] * 10)} | {n: by_problem([1.0] * 10) for n in ("late", "early")},
        champion="old",
        challengers=["early", "late"],
        champion_age_h=0,
        rules=RULES,
        seed="s",
    )
    assert decision.champion == "early"


def test_without_a_champion_the_best_is_crowned_uncontested_and_a_zero_is_not() -> None:
    crowned = decide(
        scores={"a": by_problem([0.0, 0.3]), "b": by_problem([1.0, 0.0])},
        champion=None,
        challengers=["a", "b"],
        champion_age_h=0,
        rules=RULES,
        seed="s",
    )
    assert (crowned.champion, crowned.uncontested) == ("b", True)
    nobody = decide(
        scores={"a": by_problem([0.0])},
        champion=None,
        challengers=["a"],
        champion_age_h=0,
        rules=RULES,
        seed="s",
    )
    assert (nobody.champion, nobody.promoted) == (None, False)


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="not scored on the same problems"):
        decide(
            scores={"a": {"p": 1.0}, "b": {"q": 1.0}},
            champion="a",
            challengers=["b"],
            champion_age_h=0,
            rules=RULES,
            seed="s",
        )
