"""The OpenAPI description: typed, with examples, and with every error that may come."""

from __future__ import annotations

from typing import Any, cast

import pytest

from arena.api.problem_details import MEDIA_TYPE, TITLES
from storage.database import Database
from tests.arena.api.stage import api
from tests.arena.stores import Clock

# What the application says of itself asks no database.
DESCRIPTION: dict[str, Any] = api(cast(Database, None), Clock()).openapi()
OPERATIONS = {
    f"{method} {path}": operation
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_what_it_is_for_and_declares_its_errors_as_problems(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["description"]
    assert operation["tags"]
    answers = operation["responses"]
    assert {"422", "429", "503"} <= set(answers)
    for status, answer in answers.items():
        if int(status) >= 400:
            assert set(answer["content"]) == {MEDIA_TYPE}
            examples = answer["content"][MEDIA_TYPE]["examples"]
            assert {example["value"]["status"] for example in examples.values()} == {int(status)}
    assert "Retry-After" in answers["429"]["headers"]


def test_every_error_code_is_declared_somewhere() -> None:
    declared = {
        code
        for operation in OPERATIONS.values()
        for answer in operation["responses"].values()
        for content in answer.get("content", {}).values()
        for code in content.get("examples", {})
    }
    assert declared == set(TITLES)


def test_what_must_be_signed_says_so() -> None:
    signed = {name for name, operation in OPERATIONS.items() if "401" in operation["responses"]}
    assert signed == {name for name, operation in OPERATIONS.items() if operation.get("security")}
    assert {"post /v1/submissions", "post /v1/races/{number}/void"} <= signed
    assert not {"get /v1/races", "get /v1/traces", "get /v1/audit"} & signed
