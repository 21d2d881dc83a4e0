"""Episodes played again from their record: the same bytes, or the first step that differs."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import SecretStr

from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Asking, Upstream
from arena.replay import RecordedModel, Strayed, first_divergence, steps, timeless
from arena.sandbox.sandbox import Sandbox, SandboxUnavailable, choose
from arena.sandbox.staging import StagedPython, stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.verdict import Failed, Solved
from problems.environment import ToolReply
from storage.events import Event, EventLog, digest
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import KEY, Puppet, native_call, say, tell
from tests.arena.test_episode import LIMITS

ANSWER = tell(message={"content": None, "tool_calls": [native_call("answer", '{"total": 42}')]})
AGENT = f"""
    import json
    from openai import OpenAI

    def solve(problem, tools, llm):
        for words in {[say("one"), say("two", logprobs={"content": []})]!r}:
            llm.chat(words, temperature=0.5)
        try:
            llm.chat({tell(status=500)!r})
        except Exception:
            tools.add(amount=1)
        stream = OpenAI().chat.completions.create(
            model="puppet-2", messages={ANSWER!r}, tools=tools.specs, stream=True, seed=5
        )
        for chunk in stream:
            for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                tools.call(call.function.name, json.loads(call.function.arguments))
        try:
            tools.call("add", "no number")
        except Exception:
            tools.finish()
"""


class Dearer(Ledger):
    """A ledger in which adding answers something else than it did."""

    def call(self, tool: str, arguments: object) -> ToolReply:
        reply = super().call(tool, arguments)
        return ToolReply("another answer", reply.arguments) if tool == "add" and reply.arguments else reply


class Stage:
    """Plays one agent in the ledger, against a provider or its record."""

    def __init__(self, sandbox: Sandbox, root: Path) -> None:
        self.sandbox, self.root = sandbox, root

    async def play(self, model: Any, *, source: str = AGENT, world: Ledger | None = None) -> EpisodeRecord:
        return await play(
            episode_id="e",
            source=dedent(source).encode(),
            problem=ledger_problem(),
            environment=world or Ledger(),
            sandbox=self.sandbox,
            limits=LIMITS,
            slot=0,
            upstream=model,
            budget=Budget(),
            seed=11,
            socket_root=self.root,
        )


@pytest.fixture(scope="session")
def staged() -> StagedPython:
    return stage()


@pytest.fixture
def played(staged: StagedPython, short_folder: Path) -> Stage:
    return Stage(SubprocessSandbox(staged), short_folder)


@pytest.fixture
def quick(puppet: Puppet) -> Upstream:
    return Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1", "puppet-2"), retries=0, pause_s=0)


async def test_an_episode_has_the_same_bytes_when_it_is_played_again_in_the_real_sandbox(
    staged: StagedPython, quick: Upstream, open_folder: Path, puppet: Puppet
) -> None:
    try:
        contained = await choose(staged)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    there = Stage(contained, open_folder)
    then = await there.play(quick)
    assert isinstance(then.verdict, Solved), then.exit
    asked = len(puppet.requests)
    now = await there.play(RecordedModel(then.events))
    assert len(puppet.requests) == asked, "nobody but the record was asked"
    assert first_divergence(then.events, now.events) is None
    assert timeless(then.events) == timeless(now.events)
    assert now.verdict == then.verdict
    assert then.events[-1].hash != now.events[-1].hash
    kinds = [event.kind for event in then.events if event.kind != "blob"]
    assert kinds.count("model_call") == 4
    assert kinds.count("tool_call") == 4


async def test_a_tool_that_answers_something_else_now_is_the_first_step_that_differs(
    played: Stage, quick: Upstream
) -> None:
    then = await played.play(quick)
    now = await played.play(RecordedModel(then.events), world=Dearer())
    found = first_divergence(then.events, now.events)
    assert found is not None
    assert found.then is not None
    assert found.now is not None
    assert (found.step, found.then["kind"], found.then["name"]) == (5, "tool_call", "add")
    assert found.then["content"] == {"done": "add", "amount": 1}
    assert found.now["content"] == "another answer"
    assert found.where() == ["content: then {'done': 'add', 'amount': 1}, now another answer"]
    assert timeless(then.events) != timeless(now.events)
    assert json.loads(json.dumps(found.to_json()))["step"] == 5


async def test_an_agent_that_asks_something_else_now_is_told_of_with_both_questions(
    played: Stage, quick: Upstream
) -> None:
    source = f"""
        import time
        def solve(problem, tools, llm):
            llm.chat({say("x")!r}, stop=[str(time.time())])
            tools.answer(total=42)
            tools.finish()
    """
    then = await played.play(quick, source=source)
    now = await played.play(RecordedModel(then.events), source=source)
    found = first_divergence(then.events, now.events)
    assert found is not None
    assert found.step == 2
    assert any(line.startswith("params.stop[0]: then") for line in found.where())
    assert isinstance(then.verdict, Solved)
    assert isinstance(now.verdict, Failed) or now.verdict != then.verdict


async def test_an_episode_that_ends_sooner_now_differs_where_it_ended(played: Stage, quick: Upstream) -> None:
    then = await played.play(quick)
    shorter = then.events[:-2]
    found = first_divergence(then.events, shorter)
    assert found is not None
    assert found.now is None
    assert found.step == len(steps(then.events)) - 1


async def test_what_was_not_asked_then_has_no_answer() -> None:
    with pytest.raises(Strayed, match="did not ask it then"):
        await RecordedModel(_log("a").events).complete(_payload("b", seed=1), Asking())


async def test_calls_made_at_the_same_time_may_come_in_another_order() -> None:
    model = RecordedModel(_log("a", "b", "a").events)
    assert (await model.complete(_payload("b", seed=1), Asking())).message["content"] == "to b"
    assert (await model.complete(_payload("a", seed=2), Asking())).message["content"] == "to a"
    assert (await model.complete(_payload("a", seed=0), Asking())).message["content"] == "to a"
    with pytest.raises(Strayed):
        await model.complete(_payload("a", seed=0), Asking())


def _payload(words: str, *, seed: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": words}], "seed": seed, "stream": False}


def _log(*questions: str) -> EventLog:
    log = EventLog()
    log.append("started", {"model": "m"}, at_ms=0)
    for seed, words in enumerate(questions):
        asked = log.blob({"role": "user", "content": words}, at_ms=0)
        response = {
            "message": {"role": "assistant", "content": f"to {words}"},
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "estimated": False},
            "emitted": [],
        }
        call = {"call_id": "c", "model": "m", "messages": [asked], "tools": None, "params": {"seed": seed}}
        log.append("model_call", {**call, "response": response}, at_ms=0)
    return log


def test_times_and_hashes_are_no_difference() -> None:
    early, late = EventLog(), EventLog()
    for log, at_ms in ((early, 1), (late, 2)):
        log.append("started", {"episode_id": "e", "problem": {"query": "q"}}, at_ms=at_ms)
        log.append(
            "tool_call",
            {
                "name": "add",
                "arguments": {},
                "canonical": {},
                "content": "x",
                "error": None,
                "repairs": [],
                "elapsed_ms": at_ms,
            },
            at_ms=at_ms,
        )
    assert early.head != late.head
    assert first_divergence(early.events, late.events) is None
    assert timeless(early.events) == timeless(late.events)
    events: tuple[Event, ...] = late.events
    assert digest(steps(events)) == digest(steps(early.events))
