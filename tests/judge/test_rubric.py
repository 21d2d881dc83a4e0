from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.coefficient import FLOOR, coefficient
from judge.evidence import evidence
from judge.grounded import GroundedJudge, judge
from judge.rubric import RUBRIC, RUBRICS, UnknownRubric, rubric_of
from tests.judge.episodes import Episode


def test_grades_rise_with_each_gate() -> None:
    grades = [RUBRIC.grade_after(n) for n in range(len(RUBRIC.gates) + 1)]
    assert grades == [0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    assert [RUBRIC.gate_after(n) for n in range(6)] == [
        "none",
        "worked",
        "analysed",
        "cited",
        "compared",
        "tracked",
    ]


def test_an_impossible_count_of_gates_has_no_grade() -> None:
    with pytest.raises(ValueError, match="5 gates"):
        RUBRIC.grade_after(6)


def test_a_change_of_wording_changes_the_rubric_id() -> None:
    gate = replace(RUBRIC.gates[0], question="Did anyone work?")
    assert replace(RUBRIC, gates=(gate, *RUBRIC.gates[1:])).id != RUBRIC.id


@pytest.mark.parametrize(
    ("grade", "factor"), [(0.0, 0.3), (0.1, 0.3875), (0.5, 0.7375), (0.7, 0.9125), (0.8, 1.0), (1.0, 1.0)]
)
def test_coefficient_at_known_grades(grade: float, factor: float) -> None:
    assert coefficient(grade) == pytest.approx(factor)


@given(st.floats(0, 1), st.floats(0, 1))
def test_coefficient_never_falls_as_the_grade_rises(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert FLOOR <= coefficient(low) <= coefficient(high) <= 1.0


@pytest.mark.parametrize("grade", [-0.01, 1.01, float("nan")])
def test_what_is_no_grade_has_no_coefficient(grade: float) -> None:
    with pytest.raises(ValueError, match="unjudged"):
        coefficient(grade)


def test_a_rubric_is_found_by_its_version_and_an_unknown_one_refused() -> None:
    assert rubric_of(RUBRIC.version) is RUBRIC
    assert all(version == rubric.version for version, rubric in RUBRICS.items())
    with pytest.raises(UnknownRubric, match="there are 1"):
        rubric_of("0")


def test_the_grounded_judge_grades_by_the_rubric_it_is_given_and_refuses_gates_it_cannot_check() -> None:
    strict = replace(RUBRIC, version="strict", gates=RUBRIC.gates[1:])
    said = judge(evidence(Episode().search().events), strict)
    assert (said.rubric, said.gate) == (strict.id, "none")
    with pytest.raises(ValueError, match="sung"):
        GroundedJudge(replace(RUBRIC, gates=(replace(RUBRIC.gates[0], name="sung"),)))
