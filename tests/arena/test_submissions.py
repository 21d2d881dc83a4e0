"""Submissions: what is refused and why, and that a hostile file cannot take the validator down."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from arena.rules import Rules
from arena.screening import (
    BadName,
    CoolingDown,
    DoesNotParse,
    Duplicate,
    NotUtf8,
    Prohibited,
    TooLarge,
    screen,
)
from arena.source_policy import Finding, Unparsable, inspect
from arena.submissions import Submissions
from storage.database import Database
from storage.tables import Entrant, Race, Submission
from tests.arena.stores import NOW, Clock, add_episodes

RULES = Rules()
GOOD = b"import re\nPATTERN = re.compile('a')\n\ndef agent(problem):\n    return PATTERN.search(problem)\n"


@pytest.mark.parametrize(
    ("source", "rule", "line"),
    [
        ("x = 1\nexec('y')", "dynamic-code", 2),
        ("eval('1')", "dynamic-code", 1),
        ("f = eval", "dynamic-code", 1),
        ("compile('1', '', 'exec')", "dynamic-code", 1),
        ("\n\n__import__('os')", "dynamic-import", 3),
        ("import marshal", "encoded-code", 1),
        ("from marshal import loads", "encoded-code", 1),
        ("import builtins as b\nb.exec('x')", "dynamic-code", 1),
        ("__builtins__.eval('x')", "dynamic-code", 1),
        ("import importlib.util", "dynamic-import", 1),
        ("import pickle\npickle.loads(b'...')", "encoded-code", 1),
        ("import ctypes", "encoded-code", 1),
        ("globals()['__builtins__']['ev' 'al']('1')", "dynamic-code", 1),
        ("getattr(x, '__import__')('os')", "dynamic-code", 1),
        ("#!/usr/bin/python\n# -*- coding: utf_7 -*-\n# +AAo-exec('hidden')", "misleading-text", 2),
        ("# vim: set fileencoding=unicode_escape\n# \\x0aexec('hidden')", "misleading-text", 1),
        ("\r# coding: utf-7", "misleading-text", 2),
        ("x = 1\ny = '\u202e'", "misleading-text", 2),
    ],
)
def test_code_that_is_not_in_the_file_is_found_with_its_line(source: str, rule: str, line: int) -> None:
    findings = inspect(source)
    assert isinstance(findings, list)
    assert (findings[0].rule, findings[0].line) == (rule, line)


@given(st.text(max_size=200))
def test_inspecting_any_text_gives_findings_or_says_that_it_does_not_parse(text: str) -> None:
    found = inspect(text)
    assert isinstance(found, Unparsable) or all(isinstance(f, Finding) for f in found)


async def test_an_honest_agent_passes() -> None:
    await screen(GOOD, RULES)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (b"x" * (RULES.source_bytes + 1), TooLarge),
        (b"\xff\xfe", NotUtf8),
        (b"def agent(:\n", DoesNotParse),
        (b"x = 1\n\0", DoesNotParse),
        (b"(" * 100_000, DoesNotParse),
        (b"-" * 200_000 + b"1", DoesNotParse),
        (b"x = " + b"a." * 100_000 + b"b", DoesNotParse),
        (b"import marshal\n", Prohibited),
    ],
    ids=["large", "utf8", "syntax", "nul", "parentheses", "unary", "attributes", "prohibited"],
)
async def test_a_bad_file_is_refused_with_its_reason(source: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        await screen(source, RULES)


async def test_a_parse_that_needs_too_much_memory_is_the_files_fault() -> None:
    small = RULES.model_copy(update={"screening_memory_bytes": 60 << 20})
    with pytest.raises(DoesNotParse, match="memory"):
        await screen(b"x = [" + b"1," * 120_000 + b"]", small)


def desk(database: Database, clock: Clock) -> Submissions:
    return Submissions(database, RULES, clock)


async def test_the_same_source_again_is_the_same_submission_even_while_cooling_down(
    database: Database,
) -> None:
    submissions = desk(database, Clock())
    both = await asyncio.gather(
        *(submissions.accept(source=GOOD, hotkey="a", name="agent") for _ in range(2))
    )
    again = await submissions.accept(source=GOOD, hotkey="a", name="agent")
    assert sorted(accepted.new for accepted in (*both, again)) == [False, False, True]
    assert len({accepted.submission_id for accepted in (*both, again)}) == 1
    async with database.session() as session:
        assert await session.scalar(select(func.count()).select_from(Submission)) == 1


async def test_another_source_must_wait_for_the_cooldown_and_is_told_until_when(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    await submissions.accept(source=GOOD, hotkey="a", name="agent")
    clock.move(hours=11)
    with pytest.raises(CoolingDown) as refused:
        await submissions.accept(source=GOOD + b"# 2", hotkey="a", name="agent")
    assert refused.value.until == NOW + timedelta(hours=12)
    clock.move(hours=1)
    assert (await submissions.accept(source=GOOD + b"# 2", hotkey="a", name="agent")).new


async def test_a_refused_file_does_not_start_a_cooldown(database: Database) -> None:
    submissions = desk(database, Clock())
    with pytest.raises(Prohibited):
        await submissions.accept(source=b"eval('1')", hotkey="a", name="agent")
    assert (await submissions.accept(source=GOOD, hotkey="a", name="agent")).new


async def test_another_hotkeys_source_is_refused(database: Database) -> None:
    submissions = desk(database, Clock())
    await submissions.accept(source=GOOD, hotkey="a", name="agent")
    with pytest.raises(Duplicate):
        await submissions.accept(source=GOOD, hotkey="b", name="agent")


async def test_a_void_race_gives_the_cooldown_back(database: Database) -> None:
    submissions = desk(database, Clock())
    accepted = await submissions.accept(source=GOOD, hotkey="a", name="agent")
    race_id = await add_episodes(database)
    async with database.session() as session:
        race = await session.get_one(Race, race_id)
        race.state = "void"
        session.add(Entrant(race_id=race_id, submission_id=accepted.submission_id))
    assert (await submissions.accept(source=GOOD + b"# 2", hotkey="a", name="agent")).new


@pytest.mark.parametrize("name", ["", " a", "x" * 49, "two\nlines", "\u202egnp"])
async def test_a_name_that_could_mislead_a_reader_is_refused(database: Database, name: str) -> None:
    with pytest.raises(BadName):
        await desk(database, Clock()).accept(source=GOOD, hotkey="a", name=name)
