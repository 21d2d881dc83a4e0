"""The labelled set, read and checked.

The one thing to know: nothing is guessed. A label that does not follow from the rubric, a name that nothing
bears and an id that stands twice are refused, with the file, the case and what to change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from judge.gold.case import (
    EnvironmentName,
    GoldCall,
    GoldCase,
    GoldInjection,
    GoldTurn,
    InjectedField,
    Where,
)
from judge.rubric import RUBRIC

__all__ = ["BadGold", "GoldCall", "GoldCase", "GoldInjection", "GoldSet", "GoldTurn", "Half", "load", "read"]

Half = Literal["dev", "unseen"]

GRADES = {RUBRIC.gate_after(passed): RUBRIC.grade_after(passed) for passed in range(len(RUBRIC.gates) + 1)}
"""The grade of each last gate passed."""


class BadGold(ValueError):
    """The labelled set is not as it must be; the message says where, and what to change."""


@dataclass(frozen=True, slots=True)
class GoldSet:
    """Labelled cases, and injections into them."""

    cases: tuple[GoldCase, ...]
    injections: tuple[GoldInjection, ...]


def load(half: Half) -> GoldSet:
    """One half of the labelled set that comes with the package. Raises BadGold."""
    return read(files("judge.gold") / half)


def read(folder: Traversable) -> GoldSet:
    """The labelled set in the JSON files of `folder`, in the order of their names. Raises BadGold."""
    if not folder.is_dir():
        raise BadGold(f"there is no folder {folder}; the labelled set is not installed")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda f: f.name)
    if not found:
        raise BadGold(f"{folder} holds no .json file; the labelled set is not installed")
    parsed = [(file.name, _parsed(file)) for file in found]
    cases = tuple(_case(name, file, case) for name, file in parsed for case in file.cases)
    by_id = {case.id: case for case in cases}
    injections = tuple(_injection(name, by_id, one) for name, file in parsed for one in file.injections)
    _refuse_repeated([case.id for case in cases] + [injection.id for injection in injections])
    return GoldSet(cases, injections)


class _Written(BaseModel):
    """Strict, and closed to unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Call(_Written):
    tool: str = Field(min_length=1)
    arguments: dict[str, Any]
    result: JsonValue = None
    scripted: bool = False
    error: str | None = None


class _Turn(_Written):
    reasoning: str = ""
    text: str = ""
    completion_tokens: int | None = Field(default=None, ge=0)
    calls: list[_Call] = []


class _Case(_Written):
    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    turns: list[_Turn] = Field(min_length=1)
    grade: float
    gate: str
    why: str = Field(min_length=1)


class _Injection(_Written):
    id: str = Field(min_length=1)
    family: str = Field(min_length=1)
    base: str
    turn: int | None = None
    field: InjectedField
    where: Where
    text: str = Field(min_length=1)


class _File(_Written):
    environment: EnvironmentName
    results: dict[str, JsonValue] = {}
    cases: list[_Case] = []
    injections: list[_Injection] = []


def _parsed(file: Traversable) -> _File:
    try:
        return _File.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadGold(f"{file.name}: {where}: {first['msg']}") from None


def _case(file_name: str, file: _File, case: _Case) -> GoldCase:
    where = f"{file_name}: {case.id}"
    if case.gate not in GRADES:
        raise BadGold(f"{where}: there is no gate {case.gate!r}; the gates are {', '.join(GRADES)}")
    if case.grade != GRADES[case.gate]:
        raise BadGold(
            f"{where}: gate {case.gate} earns {GRADES[case.gate]}, not {case.grade}; "
            "change the one or the other"
        )
    turns = tuple(_turn(f"{where}: turn {index}", file, turn) for index, turn in enumerate(case.turns))
    return GoldCase(case.id, file.environment, case.query, turns, case.grade, case.gate, case.why)


def _turn(where: str, file: _File, turn: _Turn) -> GoldTurn:
    scripted = not turn.model_fields_set & {"reasoning", "text", "completion_tokens"}
    if not scripted and turn.completion_tokens is None:
        raise BadGold(
            f"{where}: a model's turn needs completion_tokens; a script's has no reasoning and no text"
        )
    if scripted and not turn.calls:
        raise BadGold(f"{where}: nothing happens in it; give it calls, or what the model said")
    calls = tuple(_call(where, file, call, scripted=scripted or call.scripted) for call in turn.calls)
    return GoldTurn(turn.reasoning, turn.text, turn.completion_tokens, calls)


def _call(where: str, file: _File, call: _Call, *, scripted: bool) -> GoldCall:
    result = call.result
    if isinstance(result, str) and " " not in result:
        if result not in file.results:
            raise BadGold(
                f"{where}: there is no result named {result!r}; add it to `results`, or correct the name "
                "(a string with a space in it is a result itself)"
            )
        result = file.results[result]
    if result is None:
        if call.error is None:
            raise BadGold(f"{where}: {call.tool} has neither a result nor an error")
        result = {"error": call.error}
    return GoldCall(call.tool, call.arguments, result, scripted, call.error)


def _injection(file_name: str, cases: dict[str, GoldCase], written: _Injection) -> GoldInjection:
    where = f"{file_name}: {written.id}"
    if written.base not in cases:
        raise BadGold(f"{where}: there is no case {written.base!r} in this half to put text into")
    injection = GoldInjection(
        id=written.id,
        family=written.family,
        base=cases[written.base],
        turn=written.turn,
        field=written.field,
        where=written.where,
        text=written.text,
    )
    try:
        injection.case()
    except ValueError as error:
        raise BadGold(f"{where}: {error}") from None
    return injection


def _refuse_repeated(ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise BadGold(f"the id {one!r} stands twice in this half; ids of cases and injections are unique")
        seen.add(one)
