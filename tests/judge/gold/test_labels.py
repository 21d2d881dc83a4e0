"""What must hold of the labelled set itself, whoever wrote it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from judge.gold.loading import GoldSet, Half, load
from judge.rubric import MIN_WORKING_TOKENS, NO_GATE, RUBRIC

GATES = [NO_GATE, *(gate.name for gate in RUBRIC.gates)]
DOC = Path(__file__).parents[3] / "docs" / "judge_labels.md"


@pytest.fixture(scope="module", params=["dev", "unseen"])
def gold(request: pytest.FixtureRequest) -> GoldSet:
    """One half of the labelled set."""
    half: Half = request.param
    return load(half)


def test_the_set_is_large_enough_and_spread_over_all_grades_in_both_environments(gold: GoldSet) -> None:
    assert len(gold.cases) >= 80
    found = Counter((case.environment, case.gate) for case in gold.cases)
    for gate in GATES:
        assert found["shopping", gate] >= 5, gate
        assert found["ledger", gate] >= 2, gate


def test_injections_come_in_ten_families_of_at_least_three(gold: GoldSet) -> None:
    found = Counter(injection.family for injection in gold.injections)
    assert len(found) == 10
    assert min(found.values()) >= 3


def test_a_model_worked_exactly_where_some_call_has_the_least_count_of_tokens(gold: GoldSet) -> None:
    for case in gold.cases:
        most = max((turn.completion_tokens or 0 for turn in case.turns), default=0)
        assert (most >= MIN_WORKING_TOKENS) == (case.gate != NO_GATE), case.id


def test_who_made_a_call_arrives_in_the_evidence_as_it_was_written(gold: GoldSet) -> None:
    for case in gold.cases:
        written = [not call.scripted for turn in case.turns for call in turn.calls]
        assert [call.emitted for call in case.evidence().calls()] == written, case.id


def test_shopping_calls_are_understood_unless_the_case_says_that_they_failed(gold: GoldSet) -> None:
    for case in gold.cases:
        for call in case.evidence().calls():
            assert call.arguments is not None or call.error is not None, case.id


def test_every_injection_changes_what_a_judge_sees(gold: GoldSet) -> None:
    for injection in gold.injections:
        assert injection.evidence().evidence_hash != injection.base.evidence().evidence_hash, injection.id


def test_no_two_cases_show_a_judge_the_same(gold: GoldSet) -> None:
    hashes = Counter(case.evidence().evidence_hash for case in gold.cases)
    assert hashes.most_common(1)[0][1] == 1


def test_the_halves_share_no_case() -> None:
    dev, unseen = ({case.evidence().evidence_hash for case in load(half).cases} for half in ("dev", "unseen"))
    assert not dev & unseen


def test_the_document_counts_the_cases_that_there_are() -> None:
    dev = load("dev")
    found = Counter((case.gate, case.environment) for case in dev.cases)
    text = DOC.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == GATES
    for passed, (gate, grade, shopping, ledger) in enumerate(rows):
        assert float(grade) == RUBRIC.grade_after(passed)
        assert (int(shopping), int(ledger)) == (found[gate, "shopping"], found[gate, "ledger"])
    assert f"and {len(dev.injections)} injections" in text
