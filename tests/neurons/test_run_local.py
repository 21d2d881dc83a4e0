"""`arena miner run-local`: what a miner sees at home is what a validator would have stored."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from arena import queue, samples
from arena.player import SandboxedPlayer
from arena.replay import steps
from arena.sandbox.sandbox import Sandbox
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.scripted_shopper.child import ShopperServer
from arena.suites import store_suite
from arena.worker import Worker
from judge.grounded import GroundedJudge
from judge.worker import judge_pending
from neurons import cli, settings
from neurons.host import socket_root
from neurons.practice import Practice, practice_model, practise
from neurons.practice_problems import PracticeOptions, practice_world
from neurons.practice_report import failures, score, to_json
from neurons.settings import Settings
from neurons.trace_files import NoTraceFile, read_trace
from storage.database import Database
from storage.tables import Episode, Race, Submission
from storage.traces import StoredTrace, TraceQuery, stream
from tests.neurons.commands import arena

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CAREFUL = "scripted-shopper-careful"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, so that the problems are made once."""
    return tmp_path_factory.mktemp("practice")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return SubprocessSandbox(stage())


@pytest.fixture
def sockets() -> Iterator[Path]:
    with socket_root() as folder:
        yield folder


def chosen(data_dir: Path, **more: Any) -> Settings:
    return settings.load({"data_dir": data_dir, "sandbox": {"unsafe": True, "slots": 2}, **more})


async def practised(options: PracticeOptions, chosen: Settings, sandbox: Sandbox, sockets: Path) -> Practice:
    told: list[tuple[int, int]] = []
    practice = await practise(
        options,
        chosen,
        sandbox,
        socket_root=sockets,
        first_slot=0,
        say=lambda _: None,
        done=lambda finished, of: told.append((finished, of)),
    )
    assert told == [(n, len(practice.played)) for n in range(len(practice.played) + 1)]
    return practice


async def by_a_validator(
    practice: Practice, source: bytes, chosen: Settings, sandbox: Sandbox, sockets: Path, database: Database
) -> dict[UUID, StoredTrace]:
    """The same episodes through store, queue, worker and judge."""
    environment, suite = practice_world(practice.options, chosen)
    public = await store_suite(database, suite, "public")
    async with database.session() as session:
        submission = Submission(
            hotkey="hk", source_sha256="0" * 64, source=source, name="a", state="accepted", submitted_at=NOW
        )
        race = Race(
            number=1,
            rules=practice.rules.model_dump(mode="json"),
            rules_hash=practice.rules.rules_hash,
            public_suite_id=public,
            pool_suite_id=public,
            opened_at=NOW,
        )
        session.add_all([submission, race])
        await session.flush()
        for position, one in enumerate(practice.played):
            session.add(
                Episode(
                    id=one.trace.episode_id,
                    race_id=race.id,
                    phase="qualifying",
                    submission_id=submission.id,
                    suite_id=public,
                    problem_id=one.trace.problem_id,
                    seed=one.trace.events[0].body["seed"],
                    position=position,
                    not_before=NOW,
                )
            )
        race_id = race.id
    async with practice_model(chosen) as upstream:
        player = SandboxedPlayer({public: environment}, sandbox, upstream, socket_root=sockets)
        worker = Worker(
            database, player, practice.rules, name="w", slots=2, clock=lambda: NOW + timedelta(seconds=1)
        )
        stop = asyncio.Event()
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(worker.run(stop))
            while True:
                async with database.session() as session:
                    if not await queue.unfinished(session, race_id, "qualifying"):
                        break
                await asyncio.sleep(0.05)
            stop.set()
    await judge_pending(database, GroundedJudge(), limit=100)
    return {trace.episode_id: trace async for trace in stream(database, TraceQuery())}


def timeless(trace: StoredTrace) -> dict[str, Any]:
    """A trace as JSON without times, and without in which race it was played and by whom."""
    found: dict[str, Any] = {
        "steps": steps(trace.events),
        "problem": (trace.problem_id, trace.category, trace.problem, trace.suite_id),
        "attempt": (trace.attempt, trace.final),
        "verdict": (trace.verdict, trace.reason, trace.outcome),
        "calls": (trace.model_emitted, trace.scripted),
        "tokens": (trace.prompt_tokens, trace.completion_tokens),
        "trajectory": trace.trajectory,
        "judgement": None if trace.judgement is None else asdict(trace.judgement),
    }
    plain: dict[str, Any] = without_times(json.loads(json.dumps(found)))
    return plain


def without_times(value: Any) -> Any:
    times = ("timestamp", "elapsed_ms", "chain_head", "trajectory_id")
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in times}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["react_in_tags", "no_model"])
async def test_an_agent_fares_at_home_as_with_a_validator_in_all_but_time(
    name: str, data_dir: Path, tmp_path: Path, sandbox: Sandbox, sockets: Path, database: Database
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_bytes(samples.source(name))
    options = PracticeOptions(agent, tmp_path / "out", problems=3)
    settings_now = chosen(data_dir)
    practice = await practised(options, settings_now, sandbox, sockets)
    stored = await by_a_validator(practice, agent.read_bytes(), settings_now, sandbox, sockets, database)
    assert len(stored) == len(practice.played) == 3
    assert any(one.trace.verdict == "solved" for one in practice.played)
    for one in practice.played:
        assert timeless(one.trace) == timeless(stored[one.trace.episode_id])
        assert timeless(read_trace(one.file)) == timeless(one.trace)


async def test_the_cost_is_told_by_the_price_table_and_answers_stay_hidden(
    data_dir: Path, tmp_path: Path, sandbox: Sandbox, sockets: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "def solve(problem, tools, llm):\n"
        "    public = {'problem_id', 'environment', 'category', 'query', 'difficulty'}\n"
        "    assert set(problem) <= public, set(problem)\n"
        "    llm.chat([{'role': 'user', 'content': 'hello'}])\n"
        "    found = tools.find_product(q='shoes', page=1)\n"
        "    tools.recommend_product(product_ids=found[0]['product_id'])\n"
    )
    options = PracticeOptions(agent, tmp_path / "out", problems=2, categories=("voucher",))
    prices = {CAREFUL: {"prompt": 1_000_000, "completion": 0}}
    with ShopperServer() as shopper:
        model = {"base_url": shopper.base_url, "models": (CAREFUL,), "prices": prices}
        practice = await practised(options, chosen(data_dir, model=model), sandbox, sockets)
    told = to_json(practice)
    assert told["usd"] == pytest.approx(told["prompt_tokens"])
    assert told["usd"] > 0
    assert told["model"] == {"name": CAREFUL, "scripted": False}
    assert {p["category"] for p in told["problems"]} == {"voucher"}
    for one, shown in zip(practice.played, told["problems"], strict=True):
        assert shown["verdict"] == "failed", one.stderr
        assert shown["failures"] == [{"rule": rule, "found": found} for rule, found in failures(one)]
        assert "wanted" not in json.dumps(shown)
        assert shown["gate"] is not None
    found = score(practice)
    assert found is not None
    assert found.score == 0


async def test_a_file_that_was_changed_is_not_taken_for_a_trace(
    data_dir: Path, tmp_path: Path, sandbox: Sandbox, sockets: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("def solve(problem, tools, llm):\n    raise SystemExit('that was all')\n")
    options = PracticeOptions(agent, tmp_path / "out", problems=1)
    practice = await practised(options, chosen(data_dir), sandbox, sockets)
    (one,) = practice.played
    assert one.trace.reason == "crashed: that was all"
    text = one.file.read_text()
    one.file.write_text(text.replace("that was all", "all is well"))
    with pytest.raises(NoTraceFile, match="was changed"):
        read_trace(one.file)
    one.file.write_text("{}")
    with pytest.raises(NoTraceFile, match="holds no trace"):
        read_trace(one.file)


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


RunLocal = Callable[..., Ended]


@pytest.fixture
def run_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunLocal:
    """Runs the console entry point in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["arena", "miner", "run-local", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run


def refused(ended: Ended, words: tuple[str, ...]) -> None:
    """One line that says what to do, and status 2."""
    assert (ended.status, ended.out) == (2, ""), ended
    assert ended.err.startswith("arena: "), ended.err
    assert ended.err.count("\n") == 1, ended.err
    for word in words:
        assert word in ended.err


def test_the_command_says_what_became_of_each_problem_and_shows_a_trace(
    run_local: RunLocal, data_dir: Path, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_bytes(samples.source("model_driven_hasty"))
    kept = ("--data-dir", str(data_dir), "--out", str(tmp_path / "o"), "--unsafe-no-sandbox")
    ended = run_local(str(agent), *kept, "--problems", "3")
    assert ended.status == 0, ended.err
    for words in ("verdict", "gate", "score ", "tokens read", "no language model", "arena episode show"):
        assert words in ended.out, ended.out
    assert "rule " in ended.out, "the hasty one fails something"
    file = ended.out.rpartition("arena episode show ")[2].strip()
    shown = arena(tmp_path, "episode", "show", file)
    assert shown.returncode == 0, shown.stderr
    for words in ("find_product", "by the model", "agent.py of this machine"):
        assert words in shown.stdout


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, ("cannot be read", "give the agent's source file")),
        ("def solve(:\n", ("a validator would refuse this file (does_not_parse): line 1",)),
        (
            "import pickle\neval('1')\n",
            ("(prohibited)", "line 1: pickle", "line 2: eval", "rule dynamic-code"),
        ),
        ("\udcff", ("(not_utf8)", "byte 0")),
    ],
)
def test_a_file_that_a_validator_would_refuse_is_refused_with_all_that_was_found(
    run_local: RunLocal, tmp_path: Path, source: str | None, words: tuple[str, ...]
) -> None:
    agent = tmp_path / "agent.py"
    if source is not None:
        agent.write_bytes(source.encode(errors="surrogateescape"))
    refused(run_local(str(agent), "--unsafe-no-sandbox"), words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--suite", "."), ("holds no suite with its catalog", "arena problems generate")),
        (("--category", "toys"), ("no category 'toys'", "product, shop, voucher")),
        (("--problems", "0"), ("--problems must be at least 1",)),
        (("--model.base-url", "http://127.0.0.1:9/v1"), ("--model.name",)),
        (("--environment", "moon"), ("problems.environment",)),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(
    run_local: RunLocal, data_dir: Path, tmp_path: Path, flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_bytes(samples.source("no_model"))
    refused(run_local(str(agent), "--data-dir", str(data_dir), "--unsafe-no-sandbox", *flags), words)


def test_without_a_sandbox_it_says_what_to_install(
    run_local: RunLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage()
    agent = tmp_path / "agent.py"
    agent.write_bytes(samples.source("no_model"))
    empty = tmp_path / "no-programs"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    refused(run_local(str(agent)), ("bubblewrap", "--unsafe-no-sandbox"))
