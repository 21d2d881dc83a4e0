"""Settlement: a pure function, in which our failures are never anybody's zero."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.rules import Rules
from arena.scoring import EpisodeResult, IncompleteResults, agency, episode_score, score_agents, withdrawn
from arena.settlement import Finisher, RaceInputs, Settlement, Voided, settle

ENTRANTS = (Finisher("champ", "hk-champ", "old", True), Finisher("chal", "hk-chal", "new", False))


def result(agent: str, problem: int, verdict: str = "solved", grade: float | None = 0.9) -> EpisodeResult:
    return EpisodeResult(agent, f"p{problem:02}", 0, verdict, None, grade, 2, 0, 10, 1)  # type: ignore[arg-type]


def inputs(results: list[EpisodeResult], **changes: object) -> RaceInputs:
    values = {
        "number": 1,
        "rules": Rules(),
        "seed": "0xblock",
        "entrants": ENTRANTS,
        "champion_age_h": 24.0,
        "results": tuple(results),
        "credits": {"hk-chal": 3},
    }
    return RaceInputs(**(values | changes))  # type: ignore[arg-type]


def a_race(n: int = 20) -> list[EpisodeResult]:
    return [result("champ", i, "solved" if i % 4 == 0 else "failed") for i in range(n)] + [
        result("chal", i) for i in range(n)
    ]


def test_a_race_settles_with_scores_promotion_and_payout() -> None:
    settled = settle(inputs(a_race()))
    assert isinstance(settled, Settlement)
    assert settled.scores.agents["champ"].score == 0.25
    assert settled.scores.agents["chal"].score == 1.0
    assert settled.promotion.champion == "chal"
    assert sum(settled.payout.units.values()) + settled.payout.burn == 65535
    assert settled.payout.paid["hk-chal"].champion > 0


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_the_same_results_in_any_order_give_the_same_bytes(seed: int) -> None:
    results = a_race()
    first = settle(inputs(results))
    random.Random(seed).shuffle(results)
    second = settle(inputs(results))
    assert isinstance(first, Settlement)
    assert isinstance(second, Settlement)
    assert first.to_bytes() == second.to_bytes()


@pytest.mark.parametrize(
    "ours",
    [{"verdict": "unscored", "reason": "provider"}, {"grade": None}, {"verdict": "failed", "grade": None}],
)
def test_a_problem_we_failed_on_is_left_out_for_everyone_and_counted(ours: dict[str, object]) -> None:
    results = a_race()
    results[0] = replace(results[0], **ours)  # type: ignore[arg-type]
    settled = settle(inputs(results))
    assert isinstance(settled, Settlement)
    assert "p00" in settled.scores.left_out
    for score in settled.scores.agents.values():
        assert "p00" not in score.by_problem
        assert len(score.by_problem) == 19
    without = settle(inputs([r for r in results if r.problem_id != "p00"]))
    assert isinstance(without, Settlement)
    assert settled.scores.agents["chal"].score == without.scores.agents["chal"].score
    assert settled.scores.agents["champ"].score == without.scores.agents["champ"].score
    assert {a["left_out"] for a in settled.to_json()["agents"]} == {1}


def test_a_race_with_too_many_problems_left_out_is_void() -> None:
    results = a_race()
    for i in (0, 1, 20, 21):  # of both agents: nobody is alone in it
        results[i] = replace(results[i], verdict="unscored")
    assert isinstance(settle(inputs(results)), Settlement)
    for i in (2, 22):
        results[i] = replace(results[i], verdict="unscored")
    voided = settle(inputs(results))
    assert isinstance(voided, Voided)
    assert "3 of 20" in voided.reason


def test_an_episode_without_a_score_cannot_be_made_a_number() -> None:
    with pytest.raises(ValueError, match="must be left out"):
        episode_score(result("a", 1, "unscored"), agency_floor=0.5)
    with pytest.raises(ValueError, match="must be left out"):
        episode_score(result("a", 1, grade=None), agency_floor=0.5)


def test_a_missing_or_doubled_episode_is_refused() -> None:
    with pytest.raises(IncompleteResults, match="no result"):
        settle(inputs(a_race()[1:]))
    with pytest.raises(IncompleteResults, match="two results"):
        settle(inputs([*a_race(), result("champ", 0)]))


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1))
def test_agency_lies_between_the_floor_and_one(emitted: int, scripted: int, floor: float) -> None:
    assert floor - 1e-12 <= agency(emitted, scripted, floor) <= 1 + 1e-12


def test_a_scripted_success_is_worth_the_floor_and_a_weakly_reasoned_one_less() -> None:
    scripted = replace(result("a", 1), model_emitted=0, scripted=4)
    assert episode_score(scripted, agency_floor=0.5) == 0.5
    assert episode_score(replace(scripted, grade=0.0), agency_floor=0.5) == pytest.approx(0.15)


def test_repeats_of_a_problem_are_averaged_before_problems_are() -> None:
    once = [result("a", i, v) for i, v in ((0, "solved"), (1, "failed"))]
    twice = once + [replace(r, repeat=1, verdict="failed") for r in once]
    assert score_agents(twice, ["a"], Rules()).agents["a"].by_problem == {"p00": 0.5, "p01": 0.0}


def without_scores(results: list[EpisodeResult], agent: str, problems: range) -> list[EpisodeResult]:
    names = {f"p{i:02}" for i in problems}
    return [
        replace(r, verdict="unscored") if r.agent == agent and r.problem_id in names else r for r in results
    ]


def test_a_champion_that_alone_is_not_scored_cannot_void_the_race_and_is_neither_beaten_nor_paid() -> None:
    settled = settle(inputs(without_scores(a_race(), "champ", range(12))))
    assert isinstance(settled, Settlement)
    assert (settled.promotion.champion, settled.promotion.promoted) == ("champ", False)
    assert "hk-champ" not in settled.payout.units
    assert settled.payout.paid["hk-chal"].champion == 0
    shown = settled.to_json()
    assert [agent["agent"] for agent in shown["agents"]] == ["chal"]
    assert "12 of 20" in shown["withdrawn"][0]["reason"]
    assert sum(settled.payout.units.values()) + settled.payout.burn == 65535


def test_a_losing_challenger_cannot_take_problems_from_the_others() -> None:
    third = [result("third", i, "failed") for i in range(20)]
    entrants = (*ENTRANTS, Finisher("third", "hk-third", "sore loser", False))
    results = without_scores([*a_race(), *third], "third", range(10, 20))
    settled = settle(inputs(results, entrants=entrants))
    assert isinstance(settled, Settlement)
    assert settled.scores.left_out == {}
    assert set(settled.scores.withdrawn) == {"third"}
    assert settled.promotion.champion == "chal"
    assert "hk-third" not in settled.payout.units


def test_when_every_challenger_is_withdrawn_the_champion_stays_and_is_paid() -> None:
    settled = settle(inputs(without_scores(a_race(), "chal", range(5))))
    assert isinstance(settled, Settlement)
    assert (settled.promotion.champion, settled.promotion.promoted) == ("champ", False)
    assert settled.payout.paid["hk-champ"].champion > 0


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 60), min_size=1, max_size=8))
def test_somebody_always_stays_and_nobody_goes_for_one_problem(unscored: dict[str, int]) -> None:
    gone = withdrawn(unscored, 60, Rules())
    assert len(gone) < len(unscored)
    assert all(unscored[agent] > 3 for agent in gone)


def test_an_agent_that_needs_the_model_is_not_withdrawn_because_others_do_without_it() -> None:
    results = [
        replace(r, completion_tokens=0) if r.agent == "chal" else r
        for r in without_scores(a_race(), "champ", range(12))
    ]
    assert isinstance(settle(inputs(results)), Voided)


def test_what_happens_to_all_alike_withdraws_nobody() -> None:
    assert withdrawn({"a": 9, "b": 6, "c": 4}, 60, Rules()) == {}
    assert set(withdrawn({"a": 9, "b": 0, "c": 2}, 60, Rules())) == {"a"}
    assert withdrawn({"a": 1, "b": 0}, 4, Rules()) == {}
