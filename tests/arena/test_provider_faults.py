"""Whole episodes against a provider that fails in every way: never a zero by our fault."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import SecretStr

from arena.recorder.upstream import Upstream
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.verdict import Solved, Unscored
from tests.arena.puppet import KEY, Puppet, tell
from tests.arena.test_episode import Player

PIECES = [{"content": "half "}, {"content": "an answer"}]
FAULTS: dict[str, dict[str, Any]] = {
    "too many requests": {"status": 429, "retry_after": "0"},
    "an internal error": {"status": 500},
    "a bad gateway": {"status": 502},
    "no answer in time": {"hang": True},
    "an answer that is no JSON": {"body": "<html>"},
    "an answer without choices": {"body": "{}"},
    "a connection cut in the answer": {"message": {"content": "x" * 1_000}, "cut": True},
    "a connection cut in the stream": {"pieces": PIECES, "cut": True},
}
ASK = """
    def ask(messages):
        from openai import OpenAI
        stream = OpenAI().chat.completions.create(
            model="default", messages=messages, stream=True, max_tokens=50
        )
        return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
"""


@pytest.fixture
def player(impatient: Upstream) -> Iterator[Player]:
    with tempfile.TemporaryDirectory(prefix="ar", dir="/tmp") as folder:
        yield Player(SubprocessSandbox(stage()), impatient, Path(folder))


@pytest.fixture
async def impatient(puppet: Puppet) -> AsyncIterator[Upstream]:
    made = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), timeout_s=0.5, retries=1, pause_s=0.01)
    yield made
    await made.aclose()


def agent(*lines: str) -> str:
    return dedent(ASK) + "def solve(problem, tools, llm):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_episode_that_the_provider_let_down_is_unscored(
    player: Player, puppet: Puppet, fault: str
) -> None:
    record = await player(agent(f"ask({tell(**FAULTS[fault])!r})", "tools.answer(total=42)"))
    assert isinstance(record.verdict, Unscored), record.exit
    assert record.verdict.reason.startswith("provider: puppet-1: ")
    assert 1 <= len(puppet.requests) <= 2


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_agent_that_answers_in_spite_of_it_is_scored(player: Player, fault: str) -> None:
    lines = (f"try: ask({tell(**FAULTS[fault])!r})", "except Exception: tools.answer(total=42)")
    record = await player(agent(*lines))
    assert isinstance(record.verdict, Solved), record.exit
