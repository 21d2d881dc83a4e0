"""CAR and ASR: over problems, with the number left out, and never over different scorers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.environment import Outcome
from problems.report import Attempted, MixedScorers, report, same_scorer

SCORER = "rules+lexical@0.7"


def attempted(category: str, rule: float | None, solved: bool, problem: str = "p") -> Attempted:
    components = {} if rule is None else {"rule": rule}
    return Attempted(problem, category, Outcome(components, solved, SCORER))


def unscored(category: str) -> Attempted:
    return Attempted("u", category, None)


def test_the_overall_figures_are_means_over_problems_and_not_over_categories() -> None:
    found = report(
        [
            attempted("product", 1, True, "a"),
            attempted("product", 1, True, "b"),
            attempted("product", 0.5, False, "c"),
            attempted("web", 0.5, False, "d"),
        ]
    )
    assert found.overall.asr.share == 0.5
    assert found.overall.car == 0.75
    assert found.by_category["product"].asr.share == pytest.approx(2 / 3)
    assert found.by_category["web"].car == 0.5
    assert found.scorer == SCORER


def test_an_attempt_without_a_recommendation_counts_as_nothing_achieved() -> None:
    found = report([attempted("product", None, False), attempted("product", 1, True)])
    assert (found.overall.car, found.overall.asr.share) == (0.5, 0.5)


def test_what_could_not_be_scored_is_counted_and_in_no_mean() -> None:
    found = report([attempted("shop", 1, True), unscored("shop"), unscored("web")])
    assert (found.overall.asr.n, found.overall.asr.share, found.overall.left_out) == (1, 1.0, 2)
    assert (found.by_category["web"].asr.share, found.by_category["web"].car) == (None, None)
    assert found.by_category["web"].left_out == 1


def test_a_world_without_partial_credit_has_its_success_as_relevance() -> None:
    found = report([Attempted("p", "total", Outcome({"answer": 1.0}, True, "ledger"))])
    assert found.overall.car == found.overall.asr.share == 1


def test_outcomes_of_different_scorers_are_refused_by_name() -> None:
    other = Attempted("q", "product", Outcome({"rule": 1}, True, "rules+embedding@0.7"))
    with pytest.raises(MixedScorers, match=r"rules\+embedding@0\.7, rules\+lexical@0\.7"):
        report([attempted("product", 1, True), other])
    with pytest.raises(MixedScorers, match="score the recorded attempts again"):
        same_scorer([report([attempted("shop", 1, True)]).scorer, None, "another"])


def test_nothing_at_all_is_no_failure() -> None:
    found = report([])
    assert (found.scorer, found.overall.asr.share, found.overall.car, found.by_category) == (
        None,
        None,
        None,
        {},
    )


ATTEMPTS = st.lists(
    st.builds(
        attempted,
        st.sampled_from(["product", "shop", "voucher", "web"]),
        st.none() | st.floats(0, 1),
        st.booleans(),
        st.sampled_from("abcdef"),
    )
    | st.builds(unscored, st.sampled_from(["product", "web"])),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(ATTEMPTS)
def test_the_order_of_attempts_changes_nothing(attempts: list[Attempted]) -> None:
    shuffled = list(reversed(attempts))
    assert report(shuffled).to_json() == report(attempts).to_json()


@settings(max_examples=40, deadline=None)
@given(ATTEMPTS)
def test_categories_add_up_and_intervals_hold_their_means(attempts: list[Attempted]) -> None:
    found = report(attempts)
    parts = found.by_category.values()
    assert found.overall.asr.n == sum(p.asr.n for p in parts)
    assert found.overall.asr.successes == sum(p.asr.successes for p in parts)
    assert found.overall.left_out + found.overall.asr.n == len(attempts)
    for one in (found.overall, *parts):
        assert 0 <= one.asr.low <= one.asr.high <= 1
        assert one.car is None or 0 <= one.car <= 1
