"""Screening: what is refused and why, and that a hostile file cannot take the validator down."""

from __future__ import annotations

import base64
import dataclasses
import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena import samples
from arena.literals import LiteralLimits
from arena.rules import Rules
from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.sandbox import Sandbox
from arena.sandbox.staging import StagedPython, stage
from arena.screening import DoesNotParse, NotUtf8, Prohibited, Screener, ScreeningUnavailable, TooLarge
from arena.source_policy import REASONS, Finding, Unparsable, inspect

RULES = Rules()


@pytest.fixture(scope="session")
def staged() -> StagedPython:
    return stage()


@pytest.fixture
def sandbox(staged: StagedPython) -> Sandbox:
    found = shutil.which("bwrap")
    if found is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    return BubblewrapSandbox(staged, Path(found))


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


async def test_an_honest_agent_passes(sandbox: Sandbox) -> None:
    assert await Screener(sandbox, RULES).screen(GOOD)


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
        (b"x = a" + b"+ 1" * 60_000, DoesNotParse),
        (b"x = " + b"lambda:" * 30_000 + b"1", DoesNotParse),
        (b"x = [" + b"1," * 120_000 + b"]", Prohibited),
        (b"import marshal\n", Prohibited),
    ],
    ids=(
        *("large", "utf8", "syntax", "nul", "parentheses", "unary", "attributes", "sum", "lambdas", "table"),
        "prohibited",
    ),
)
async def test_a_bad_file_is_refused_with_its_reason(
    source: bytes, error: type[Exception], sandbox: Sandbox
) -> None:
    with pytest.raises(error):
        await Screener(sandbox, RULES).screen(source)


async def test_a_long_chain_of_cases_is_no_fault(sandbox: Sandbox) -> None:
    chain = "if f(0): g(1)\n" + "".join(f"elif f({n}): g(h, {n})\n" for n in range(400))
    assert await Screener(sandbox, RULES).screen(chain.encode())


async def test_a_parse_that_needs_too_much_memory_is_the_files_fault(sandbox: Sandbox) -> None:
    small = RULES.model_copy(update={"screening_memory_bytes": 60 << 20})
    with pytest.raises(DoesNotParse, match="memory"):
        await Screener(sandbox, small).screen(b"x = [" + b"1," * 120_000 + b"]")


LIMITS = LiteralLimits(**RULES.literals.model_dump())
NOISE = base64.b64encode(Random(1).randbytes(3_000)).decode()
CHINESE = "".join(chr(0x4E00 + n) for n in Random(4).choices(range(2_048), k=600))
SCHEMA = '{"type":"object","properties":{"query":{"type":"string"},"page":{"type":"integer","minimum":1}}}'


@pytest.mark.parametrize("name", samples.NAMES)
async def test_every_sample_passes(name: str, sandbox: Sandbox) -> None:
    assert await Screener(sandbox, RULES).screen(samples.source(name))


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (f"x = '{NOISE[:200]}'", "encoded-literal"),
        (f"x = '{NOISE[:60]}' + '{NOISE[60:200]}'", "encoded-literal"),
        (f"x = {[NOISE[i : i + 40] for i in range(0, 1_600, 40)]}", "encoded-literal"),
        (f"x = {Random(2).randbytes(3_000)!r}", "encoded-literal"),
        (f"x = '{bytes(range(100)).hex()}'", "encoded-literal"),
        (f"x = {int.from_bytes(Random(3).randbytes(60), 'big')}", "encoded-literal"),
        (f"x = {[str(n) for n in range(301)]}", "lookup-table"),
        (f"x = {[[n, [n]] for n in range(200)]}", "lookup-table"),
        (f"x = {[10_000 + n for n in range(41)]}", "code-list"),
        (f"x = '{','.join(str(7_000_000 + n) for n in range(41))}'", "code-list"),
        ("\n".join(f"def f{n}(): return 'B0{n:05}X'" for n in range(41)), "code-list"),
        ("x = [1.5, 20, 2026, 100_000, 1_000_000, 'https://example.org/a/b?c=d']", None),
        (f"SCHEMA = {SCHEMA!r} * 3", None),
        (f"PROMPT = {' '.join(REASONS.values()) * 9!r}", None),
        (f"WORDS = {CHINESE!r}", None),
    ],
)
def test_data_to_answer_from_is_found_by_its_form(source: str, rule: str | None) -> None:
    findings = inspect(source, LIMITS)
    assert isinstance(findings, list)
    assert {f.rule for f in findings} == ({rule} if rule else set())


@given(st.sets(st.integers(10**6, 10**9), min_size=41, max_size=41), st.randoms())
def test_whether_codes_are_refused_does_not_depend_on_which_they_are(ids: set[int], order: Random) -> None:
    shuffled = list(ids)
    order.shuffle(shuffled)
    assert inspect(f"x = {shuffled}", LIMITS) == [
        Finding(1, "code-list", "41 words with 5 or more digits by here")
    ]
    assert inspect(f"x = {shuffled[1:]}", LIMITS) == []


async def test_the_refusal_of_literals_repeats_nothing_of_them(sandbox: Sandbox) -> None:
    with pytest.raises(Prohibited) as refused:
        await Screener(sandbox, RULES).screen(f"x = '{NOISE}'".encode())
    assert NOISE[:16] not in str(refused.value)


async def test_a_sandbox_that_does_not_come_up_refuses_nobody(staged: StagedPython, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ScreeningUnavailable):
        await Screener(BubblewrapSandbox(staged, broken), RULES).screen(GOOD)


async def test_a_machine_that_is_too_busy_refuses_nobody(sandbox: Sandbox) -> None:
    hurried = RULES.model_copy(update={"screening_wall_s": 0.001})
    with pytest.raises(ScreeningUnavailable, match="busy"):
        await Screener(sandbox, hurried).screen(b"x = a" + b"+ 1" * 60_000)


@pytest.mark.parametrize(
    "answer",
    [
        'print(\'{"fingerprints": [1], "fingerprints": []}\')',
        "print('{\"fingerprints\": [NaN]}')",
        "print('[' * 100_000)",
        'print(\'{"fingerprints": "all"}\')',
        'print(\'{"findings": [{"line": 1, "rule": "none of ours", "construct": ""}]}\')',
        "import sys; sys.exit(3)",
    ],
    ids=["twice", "nan", "deep", "type", "rule", "exit"],
)
async def test_an_answer_that_a_taken_over_parser_could_give_is_not_believed(
    staged: StagedPython, sandbox: Sandbox, answer: str, open_folder: Path
) -> None:
    """The screening program is replaced by one that answers so."""
    support = open_folder / "support"
    shutil.copytree(staged.support, support)
    program = support / "screening" / "arena" / "screening_child.py"
    shutil.rmtree(program.parent / "__pycache__", ignore_errors=True)
    program.write_text(answer)
    assert isinstance(sandbox, BubblewrapSandbox)
    other = BubblewrapSandbox(dataclasses.replace(staged, support=support), sandbox.executable)
    with pytest.raises(ScreeningUnavailable):
        await Screener(other, RULES).screen(GOOD)
