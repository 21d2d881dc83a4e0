"""Suites on disk: a manifest, what agents may see, and what they may not, each in a file of its own.

A folder holds `manifest.json`, `problems.jsonl` and `answers.jsonl` (mode 0600). Reading checks every hash,
so that a file that was changed, swapped or cut is named and never played. The manifest is written last: a
folder without one is no suite.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from problems.problem import AnsweredProblem, Problem, ProblemSuite, SuiteManifest, canonical_json, content_id

FORMAT = 2
"""Changes with anything that changes what a folder holds. 1 was a single file for problems and answers."""
MANIFEST, PROBLEMS, ANSWERS = "manifest.json", "problems.jsonl", "answers.jsonl"


class SuiteError(Exception):
    """A folder cannot be read as a suite; the message says what to do."""


class SuiteTampered(SuiteError):
    """A file is not the one that was written. `file` names it."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            f"{file} was changed after the suite was written ({why}): restore it, or make it again"
        )
        self.file = file


def write_suite(suite: ProblemSuite, folder: Path) -> None:
    """Write `suite` into `folder`, in place of one that lies there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    manifest = {"format": FORMAT, "suite_id": suite.suite_id, **suite.manifest().model_dump(mode="json")}
    _write(folder / ANSWERS, suite.answer_lines(), mode=0o600)
    _write(folder / PROBLEMS, suite.problem_lines(), mode=0o644)
    _write(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n", mode=0o644)


def is_suite(folder: Path) -> bool:
    """Whether `folder` holds a suite, whole or not."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> SuiteManifest:
    """The manifest alone. Raises SuiteError, SuiteTampered."""
    file = folder / MANIFEST
    try:
        written = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise SuiteError(f"there is no suite in {folder}: {MANIFEST} is missing") from None
    except ValueError:
        raise SuiteTampered(file, "it is not valid JSON") from None
    if not isinstance(written, dict) or written.pop("format", None) != FORMAT:
        raise SuiteError(f"{file} was written by another version of this program: make the suite again")
    suite_id = written.pop("suite_id", None)
    try:
        manifest = SuiteManifest.model_validate(written)
    except ValidationError as error:
        raise SuiteTampered(file, f"{error.error_count()} fields are not as they were") from None
    if content_id(manifest.model_dump(mode="json")) != suite_id:
        raise SuiteTampered(file, "its fields do not give its suite_id")
    return manifest


def read_problems(folder: Path) -> tuple[SuiteManifest, tuple[Problem, ...]]:
    """What an agent may have of a suite: needs no answers. Raises SuiteError, SuiteTampered."""
    manifest = read_manifest(folder)
    rows = _rows(folder / PROBLEMS, manifest.problems_sha256)
    return manifest, tuple(Problem.model_validate(row) for row in rows)


def read_suite(folder: Path) -> ProblemSuite:
    """The whole suite. Raises SuiteError, SuiteTampered."""
    manifest, problems = read_problems(folder)
    answers = _rows(folder / ANSWERS, manifest.answers_sha256)
    suite = ProblemSuite(
        name=manifest.name,
        environment=manifest.environment,
        environment_version=manifest.environment_version,
        catalog_id=manifest.catalog_id,
        scorer=manifest.scorer,
        options=manifest.options,
        problems=tuple(
            AnsweredProblem(problem=problem, answer=row["answer"], leak_keys=tuple(row["leak_keys"]))
            for problem, row in zip(problems, answers, strict=True)
        ),
    )
    if suite.manifest() != manifest:
        raise SuiteTampered(folder / MANIFEST, "its counts are not those of the problems")
    return suite


def _rows(file: Path, sha256: str) -> list[dict[str, Any]]:
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise SuiteTampered(file, "it is missing") from None
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise SuiteTampered(file, "its hash is another one")
    return [json.loads(line) for line in raw.splitlines()]


def write_json(file: Path, value: object) -> None:
    """Write canonical JSON in one step, so that a reader never sees half a file."""
    _write(file, canonical_json(value), mode=0o644)


def _write(file: Path, content: bytes, *, mode: int) -> None:
    building = file.with_name(f".{file.name}.{os.getpid()}")
    building.unlink(missing_ok=True)
    with os.fdopen(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(content)
    building.replace(file)
