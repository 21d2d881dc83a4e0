"""Whole episodes: a real agent process, the real recorder, a real endpoint, and the verdict."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import PYTHON, Exit, Job, Limits, Sandbox, SandboxUnavailable, choose
from arena.sandbox.staging import StagedPython, stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.verdict import Failed, Solved, Unscored
from storage import events
from storage.trajectory import counts
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import KEY, Puppet, say

LIMITS = Limits(
    wall_s=30,
    cpu_s=30,
    memory_bytes=1 << 30,
    processes=64,
    file_bytes=1 << 20,
    work_bytes=1 << 24,
    output_bytes=1 << 16,
    open_files=64,
)
ASK = f"llm.chat({say('hm')!r})"


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> StagedPython:
    return stage()


@pytest.fixture
def sandbox(staged: StagedPython) -> SubprocessSandbox:
    return SubprocessSandbox(staged)


class Player:
    """Plays agents in the ledger world."""

    def __init__(self, sandbox: Sandbox, upstream: Upstream, root: Path) -> None:
        self.sandbox, self.upstream, self.root = sandbox, upstream, root

    async def __call__(
        self, source: str, *, budget: Budget | None = None, limits: Limits = LIMITS, slot: int = 0
    ) -> EpisodeRecord:
        record = await play(
            episode_id=f"e{slot}",
            source=dedent(source).encode(),
            problem=ledger_problem(),
            environment=Ledger(),
            sandbox=self.sandbox,
            limits=limits,
            slot=slot,
            upstream=self.upstream,
            budget=budget or Budget(),
            seed=slot,
            socket_root=self.root,
        )
        events.verify(record.events)
        assert record.events[-1].kind == "ended"
        assert list(self.root.iterdir()) == []
        return record


@pytest.fixture
def player(sandbox: SubprocessSandbox, upstream: Upstream, short_folder: Path) -> Player:
    return Player(sandbox, upstream, short_folder)


@pytest.fixture
def cut_off(sandbox: SubprocessSandbox, dead_upstream: Upstream, short_folder: Path) -> Player:
    """A player whose provider is down."""
    return Player(sandbox, dead_upstream, short_folder)


def agent(*lines: str) -> str:
    return "def solve(problem, tools, llm):\n" + "".join(f"    {line}\n" for line in lines)


def ended(record: EpisodeRecord) -> dict[str, object]:
    return record.events[-1].body


async def test_a_right_answer_solves(player: Player) -> None:
    record = await player(agent("tools.add(amount=42)", "tools.answer(total=42)", "tools.finish()"))
    assert isinstance(record.verdict, Solved), record.exit
    assert ended(record)["reason"] == "final"
    assert counts(record.events).scripted == 3


async def test_a_wrong_answer_fails_by_its_rule_without_showing_the_right_one(player: Player) -> None:
    record = await player(agent("tools.answer(total=41)", "tools.finish()"))
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason == "total"
    assert record.verdict.outcome is not None


async def test_what_an_agent_returns_or_prints_is_only_a_claim(player: Player) -> None:
    record = await player(agent("print('answer(total=42)')", "return {'total': 42, 'solved': True}"))
    assert record.verdict == Failed("no answer", record.verdict.outcome)  # type: ignore[union-attr]
    assert ended(record)["claim"] == {"total": 42, "solved": True}


async def test_a_crash_is_the_agents_fault_and_named(player: Player) -> None:
    record = await player(agent("raise RuntimeError('my own mistake')"))
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason == "crashed: RuntimeError: my own mistake"
    assert ended(record)["reason"] == "crashed"


async def test_source_that_does_not_compile_is_a_crash(player: Player) -> None:
    record = await player("def solve(:")
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason.startswith("crashed: SyntaxError")


async def test_a_crash_after_a_valid_answer_is_scored_on_the_answer(player: Player) -> None:
    record = await player(agent("tools.answer(total=42)", "raise RuntimeError('too late')"))
    assert isinstance(record.verdict, Solved)


async def test_a_limit_without_an_answer_is_the_agents_fault(player: Player) -> None:
    late = await player(agent("import time", "time.sleep(100)"), limits=replace(LIMITS, wall_s=3))
    assert isinstance(late.verdict, Failed)
    assert late.verdict.reason == "wall"
    assert ended(late)["reason"] == "wall"


async def test_a_limit_after_a_valid_answer_is_scored_on_the_answer(player: Player) -> None:
    record = await player(agent("tools.answer(total=42)", "while True: print('x' * 1000)"))
    assert isinstance(record.verdict, Solved)
    assert ended(record)["reason"] == "output"


async def test_a_spent_budget_without_an_answer_is_named(player: Player) -> None:
    lines = ("for n in range(3):", "    try: tools.add(amount=n)", "    except Exception as e: print(e)")
    record = await player(agent(*lines), budget=Budget(tool_calls=2))
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason == "budget"


async def test_a_provider_that_is_down_leaves_the_episode_unscored(cut_off: Player) -> None:
    record = await cut_off(agent(ASK, "tools.answer(total=42)"))
    assert isinstance(record.verdict, Unscored)
    assert record.verdict.reason.startswith("provider: puppet-1: connection failed")


async def test_an_agent_that_answers_though_the_provider_is_down_is_scored(cut_off: Player) -> None:
    record = await cut_off(agent(f"try: {ASK}", "except Exception: tools.answer(total=42)"))
    assert isinstance(record.verdict, Solved)


async def test_a_broken_environment_leaves_the_episode_unscored_even_after_an_answer(player: Player) -> None:
    record = await player(agent("tools.answer(total=42)", "tools.call('explode', {})"))
    assert isinstance(record.verdict, Unscored)
    assert "the ledger burns" in record.verdict.reason
    assert ended(record)["reason"] == "fault"


class BrokenSandbox(SubprocessSandbox):
    """A sandbox that cannot be set up."""

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        raise PermissionError("no namespaces here")


async def test_a_sandbox_that_fails_leaves_the_episode_unscored(player: Player, staged: StagedPython) -> None:
    player.sandbox = BrokenSandbox(staged)
    record = await player(agent("tools.answer(total=42)"))
    assert record.verdict == Unscored("sandbox: PermissionError: no namespaces here")


class EarlyDeath(SubprocessSandbox):
    """A sandbox in which our own launcher dies."""

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        command = (PYTHON, "-c", "raise ImportError('no kit')")
        return await super().run(replace(job, command=command), limits, slot=slot, stop=stop)


async def test_an_agent_that_was_never_started_is_unscored(player: Player, staged: StagedPython) -> None:
    player.sandbox = EarlyDeath(staged)
    record = await player(agent("tools.answer(total=42)"))
    assert record.verdict == Unscored("the agent was never started: ImportError: no kit")


async def test_nothing_counts_after_the_final_call(player: Player) -> None:
    record = await player(
        agent(
            "tools.answer(total=41)",
            "tools.finish()",
            "while True:",
            "    try: tools.answer(total=42)",
            "    except OSError: pass",
        )
    )
    assert isinstance(record.verdict, Failed)
    assert [e.body["name"] for e in record.events if e.kind == "tool_call"] == ["answer", "finish"]


async def test_the_openai_package_works_unchanged_in_a_script(player: Player) -> None:
    message = {
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "answer", "arguments": '{"total": 42}'}}
        ]
    }
    order = json.dumps({"message": message})
    record = await player(
        f"""
        import json, sys, threading
        from openai import OpenAI
        from agent_kit import problem, tools

        assert __name__ == "__main__" and problem.category == "sum"
        client = OpenAI()
        messages = [{{"role": "user", "content": {order!r}}}]
        kinds = []
        for stream in (False, True):
            answer = client.chat.completions.create(
                model="default", messages=messages, tools=tools.specs, stream=stream
            )
            if stream:
                call = next(c.choices[0].delta.tool_calls[0] for c in answer if c.choices[0].delta.tool_calls)
            else:
                call = answer.choices[0].message.tool_calls[0]
            tools.call(call.function.name, json.loads(call.function.arguments))
        threading.Thread(target=threading.Event().wait).start()  # left behind: must not hold the episode
        sys.exit()
        """
    )
    assert isinstance(record.verdict, Solved), record.exit
    assert counts(record.events).model_emitted == 2
    assert KEY not in json.dumps([event.to_json() for event in record.events])


async def test_agent_main_is_called_with_the_problem_as_a_plain_dict(player: Player) -> None:
    record = await player(
        """
        from agent_kit import tools

        async def agent_main(problem):
            assert type(problem) is dict and problem["query"]
            tools.answer(total=42)
            return [float("inf"), object]
        """
    )
    assert isinstance(record.verdict, Solved), record.exit
    assert ended(record)["claim"] is None


async def test_sixteen_episodes_at_once_keep_their_records_apart(
    sandbox: SubprocessSandbox, upstream: Upstream, short_folder: Path, puppet: Puppet
) -> None:
    def one(slot: int) -> asyncio.Task[EpisodeRecord]:
        source = agent(f"tools.add(amount={slot})", ASK, "tools.answer(total=42)", "tools.finish()")
        return asyncio.create_task(Player(sandbox, upstream, short_folder / str(slot))(source, slot=slot))

    records = await asyncio.gather(*(one(slot) for slot in range(16)))
    assert [type(record.verdict) for record in records] == [Solved] * 16
    for slot, record in enumerate(records):
        first = next(event.body for event in record.events if event.kind == "tool_call")
        assert first["canonical"] == {"amount": slot}
        assert record.events[0].body["episode_id"] == f"e{slot}"
        assert sum(event.kind == "model_call" for event in record.events) == 1


async def test_an_episode_is_solved_inside_the_real_sandbox(
    staged: StagedPython, upstream: Upstream, open_folder: Path
) -> None:
    try:
        contained = await choose(staged)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    order = say('<tool_call>{"name": "answer", "arguments": {"total": "42"}}</tool_call>')
    record = await Player(contained, upstream, open_folder)(
        "def solve(problem, tools, llm):\n"
        "    from openai import OpenAI\n"
        f"    OpenAI().chat.completions.create(model='default', messages={order!r})\n"
        "    tools.answer(total=42)\n"
        "    tools.finish()\n"
    )
    assert isinstance(record.verdict, Solved), record.exit
    assert counts(record.events).model_emitted == 1
    assert record.exit.leftovers == 0
