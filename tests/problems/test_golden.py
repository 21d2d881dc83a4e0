"""The rules give what the production scorer gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.golden import GoldenFileError, score_file


def test_every_golden_row_is_scored_as_in_production(shared_data: Path) -> None:
    report = score_file(shared_data / "golden" / "outcome_scores.jsonl")
    assert report.mismatches == ()
    assert (report.matched, report.total) == (272, 272)


def test_a_changed_row_is_reported_with_what_was_expected_and_found(
    shared_data: Path, tmp_path: Path
) -> None:
    first = (shared_data / "golden" / "outcome_scores.jsonl").read_text().splitlines()[0]
    changed = tmp_path / "changed.jsonl"
    changed.write_text(
        first.replace('"price": 1.0', '"price": 0.25').replace('"success": true', '"success": false')
    )
    report = score_file(changed)
    assert report.matched == 0
    assert {(m.component, m.expected, m.got) for m in report.mismatches} == {
        ("price", 0.25, 1.0),
        ("success", False, True),
    }


def test_a_line_that_is_no_case_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text('\n{"case_id": "a"}\n')
    with pytest.raises(GoldenFileError, match="line 2"):
        score_file(path)


def test_every_row_of_a_long_file_is_scored(shared_data: Path, tmp_path: Path) -> None:
    first = (shared_data / "golden" / "outcome_scores.jsonl").read_text().splitlines()[0]
    long = tmp_path / "long.jsonl"
    long.write_text("\n".join([first] * 1_200))
    report = score_file(long)
    assert (report.matched, report.total) == (1_200, 1_200)
