"""Settlement: a pure function, in which our failures are never anybody's zero."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.rules import Rules
from arena.scoring import EpisodeResult, IncompleteResults, agency, episode_score, score_agents
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
    for i in range(2):
        results[i] = replace(results[i], verdict="unscored")
    assert isinstance(settle(inputs(results)), Settlement)
    results[2] = replace(results[2], verdict="unscored")
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
    assert score_agents(twice, ["a"], agency_floor=0.5).agents["a"].by_problem == {"p00": 0.5, "p01": 0.0}
