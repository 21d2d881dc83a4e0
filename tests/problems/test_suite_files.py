"""Suites on disk: what agents may see and what they may not are apart, and no change goes unnoticed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.problem import AnsweredProblem, Problem, ProblemSuite, content_id
from problems.suite_files import (
    ANSWERS,
    MANIFEST,
    PROBLEMS,
    SuiteError,
    SuiteTampered,
    read_manifest,
    read_problems,
    read_suite,
    write_suite,
)

_TEXT = st.text(max_size=40)


def suite(*queries: str) -> ProblemSuite:
    return ProblemSuite(
        name="s",
        environment="shopping",
        environment_version="v",
        catalog_id="c" * 64,
        scorer="rules",
        options={"exhaustive_sort": True},
        problems=tuple(
            AnsweredProblem(
                problem=Problem(
                    problem_id=f"p-{n}",
                    environment="shopping",
                    category="product",
                    query=query,
                    difficulty="easy",
                ),
                answer={"secret": query[::-1], "price": 1.5},
                leak_keys=(f"k{n}",),
            )
            for n, query in enumerate(queries)
        ),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_suite(suite("a red hat", "a blue hat"), tmp_path / "s")
    return tmp_path / "s"


@given(st.lists(_TEXT, max_size=4, unique=True))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, queries: list[str]) -> None:
    place = tmp_path_factory.mktemp("suite")
    made = suite(*(query.encode("utf-8", "replace").decode() for query in queries))
    write_suite(made, place)
    assert read_suite(place) == made
    assert read_suite(place).suite_id == made.suite_id


def test_answers_lie_apart_and_only_their_owner_can_read_them(folder: Path) -> None:
    assert stat.S_IMODE((folder / ANSWERS).stat().st_mode) == 0o600
    assert "secret" not in (folder / PROBLEMS).read_text() + (folder / MANIFEST).read_text()
    assert "secret" in (folder / ANSWERS).read_text()


def test_the_problems_can_be_had_and_checked_without_the_answers(folder: Path) -> None:
    (folder / ANSWERS).unlink()
    manifest, problems = read_problems(folder)
    assert [problem.query for problem in problems] == ["a red hat", "a blue hat"]
    assert (manifest.categories, manifest.difficulties) == ({"product": 2}, {"easy": 2})
    with pytest.raises(SuiteTampered, match=f"{ANSWERS}.*missing"):
        read_suite(folder)


@pytest.mark.parametrize("name", [PROBLEMS, ANSWERS])
@pytest.mark.parametrize("change", [b"red->green", b"cut", b"swap"], ids=["changed", "cut", "reordered"])
def test_a_changed_file_is_named_and_not_read(folder: Path, name: str, change: bytes) -> None:
    file = folder / name
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        {
            b"red->green": lines[0].replace(b"p-0", b"p-9") + lines[1],
            b"cut": lines[0],
            b"swap": lines[1] + lines[0],
        }[change]
    )
    with pytest.raises(SuiteTampered, match=f"{name}.*make it again") as caught:
        read_suite(folder)
    assert caught.value.file == file


@pytest.mark.parametrize(
    ("field", "value"),
    [("scorer", "other"), ("options", {}), ("problems", 3), ("categories", {"shop": 2}), ("suite_id", "0")],
)
def test_a_changed_manifest_is_named_and_not_read(folder: Path, field: str, value: object) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {field: value}))
    with pytest.raises(SuiteTampered) as caught:
        read_manifest(folder)
    assert caught.value.file == folder / MANIFEST


def test_a_manifest_whose_counts_are_false_is_refused_even_with_the_right_id(folder: Path) -> None:
    manifest = read_manifest(folder).model_copy(update={"categories": {"shop": 2}})
    fields = manifest.model_dump(mode="json")
    (folder / MANIFEST).write_text(json.dumps({"format": 2, "suite_id": content_id(fields), **fields}))
    with pytest.raises(SuiteTampered, match="counts"):
        read_suite(folder)


def test_a_folder_of_another_version_or_without_a_suite_is_refused(folder: Path, tmp_path: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"format": 1}))
    with pytest.raises(SuiteError, match="another version of this program: make the suite again"):
        read_suite(folder)
    with pytest.raises(SuiteError, match="no suite"):
        read_suite(tmp_path)


def test_the_id_covers_answers_and_options() -> None:
    one = suite("a")
    assert one.suite_id != one.model_copy(update={"options": {}}).suite_id
    changed = one.problems[0].model_copy(update={"answer": {"secret": "b"}})
    assert one.suite_id != one.model_copy(update={"problems": (changed,)}).suite_id
