"""Who holds less than half of the stake decides nothing, whatever it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.consensus import Key, Report, combine, weighted_median

AGENTS = [Key(f"hk{i}", f"{i:064x}") for i in range(4)]
scores = st.floats(0, 1, allow_nan=False)
stakes = st.integers(1, 10**12)


def said(name: str) -> st.SearchStrategy[Report]:
    """Anything that a validator may say."""
    return st.builds(
        Report,
        validator=st.just(name),
        stake=stakes,
        scores=st.dictionaries(st.sampled_from(AGENTS), scores),
        champion=st.none() | st.sampled_from(AGENTS),
        credits=st.dictionaries(st.sampled_from([a.hotkey for a in AGENTS]), st.integers(0, 10**6)),
    )


@st.composite
def with_liars(draw: st.DrawFn) -> tuple[list[Report], list[Report]]:
    """Honest validators, and liars with less than half of all the stake together."""
    honest = [draw(said(f"honest-{i}")) for i in range(draw(st.integers(1, 5)))]
    liars = [draw(said(f"liar-{i}")) for i in range(draw(st.integers(0, 4)))]
    held = sum(r.stake for r in honest)
    if sum(r.stake for r in liars) >= held:
        most = held // (len(liars) + 1)
        liars = [liar for liar in (_with_stake(liar, min(liar.stake, most)) for liar in liars) if liar.stake]
    return honest, liars


def _with_stake(report: Report, stake: int) -> Report:
    return Report(report.validator, stake, report.scores, report.champion, report.credits)


@given(with_liars())
def test_liars_below_half_of_the_stake_that_scored_an_agent_leave_its_score_in_the_honest_range(
    everybody: tuple[list[Report], list[Report]],
) -> None:
    honest, liars = everybody
    combined = combine([*honest, *liars])
    for agent, score in combined.scores.items():
        true = [r.scores[agent] for r in honest if agent in r.scores]
        weight = sum(r.stake for r in honest if agent in r.scores)
        against = sum(r.stake for r in liars if agent in r.scores)
        assert true, "only liars scored it"
        if against < weight:
            assert min(true) <= score <= max(true)


@given(with_liars(), said("truth"))
def test_what_the_honest_agree_on_stands_whatever_liars_below_half_say(
    everybody: tuple[list[Report], list[Report]], truth: Report
) -> None:
    honest, liars = everybody
    agreeing = [Report(r.validator, r.stake, truth.scores, truth.champion, truth.credits) for r in honest]
    combined = combine([*agreeing, *liars])
    assert combined.scores == truth.scores
    assert (combined.champion, combined.decided) == (truth.champion, True)
    assert combined.credits == {hotkey: n for hotkey, n in truth.credits.items() if n}


@given(with_liars())
def test_liars_below_half_crown_nobody_that_no_honest_validator_names(
    everybody: tuple[list[Report], list[Report]],
) -> None:
    honest, liars = everybody
    combined = combine([*honest, *liars])
    if combined.decided:
        assert combined.champion in {r.champion for r in honest}


@given(with_liars())
def test_credits_stay_in_the_honest_range(everybody: tuple[list[Report], list[Report]]) -> None:
    honest, liars = everybody
    combined = combine([*honest, *liars])
    for hotkey in {a.hotkey for a in AGENTS}:
        true = [r.credits.get(hotkey, 0) for r in honest]
        assert min(true) <= combined.credits.get(hotkey, 0) <= max(true)


@given(st.lists(st.tuples(scores, stakes), min_size=1), st.randoms(use_true_random=False))
def test_no_order_changes_a_median(values: list[tuple[float, int]], chance: object) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert weighted_median(values) == weighted_median(shuffled)


@given(with_liars())
def test_no_order_of_reports_changes_the_outcome(everybody: tuple[list[Report], list[Report]]) -> None:
    reports = [*everybody[0], *everybody[1]]
    assert combine(reports) == combine(reports[::-1])


def test_half_of_the_stake_is_not_enough_to_crown() -> None:
    one = Report("a", 5, {AGENTS[0]: 1.0}, AGENTS[0], {})
    other = Report("b", 5, {AGENTS[0]: 0.0}, AGENTS[1], {})
    combined = combine([one, other])
    assert (combined.champion, combined.decided) == (None, False)
    assert combined.scores == {AGENTS[0]: 0.0}  # the lower of two medians


def test_an_agent_that_half_of_the_stake_did_not_score_is_left_out() -> None:
    one = Report("a", 5, {AGENTS[0]: 1.0}, None, {})
    assert combine([one, Report("b", 5, {}, None, {})]).scores == {}
    assert combine([one, Report("b", 4, {}, None, {})]).scores == {AGENTS[0]: 1.0}


def test_nobody_reports_twice_or_without_stake() -> None:
    one = Report("a", 5, {}, None, {})
    with pytest.raises(ValueError, match="once"):
        combine([one, one])
    with pytest.raises(ValueError, match="above zero"):
        combine([_with_stake(one, 0)])
    with pytest.raises(ValueError, match="above zero"):
        combine([])
    with pytest.raises(ValueError, match="weight"):
        weighted_median([(1.0, 0)])
