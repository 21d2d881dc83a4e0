"""The sample agents, played for real: own process, real recorder, the scripted shopper over HTTP."""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from arena import samples
from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Limits, Sandbox, SandboxUnavailable, choose
from arena.sandbox.staging import StagedPython, stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.scripted_shopper.child import ShopperServer
from arena.scripted_shopper.server import MODELS
from arena.source_policy import inspect
from arena.verdict import Failed, Solved
from judge.evidence import evidence
from judge.grounded import judge
from problems.problem import AnsweredProblem
from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.ordering import synthesise
from problems.shopping.shopping_environment import ShoppingEnvironment
from storage.trajectory import counts, to_atif

LIMITS = Limits(
    wall_s=60,
    cpu_s=30,
    memory_bytes=1 << 30,
    processes=64,
    file_bytes=1 << 20,
    work_bytes=1 << 24,
    output_bytes=1 << 16,
    open_files=64,
)
PROBLEMS = 8
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "writing_an_agent.md"


@pytest.fixture(scope="module")
def shopper() -> Iterator[ShopperServer]:
    with ShopperServer() as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShoppingEnvironment, list[AnsweredProblem]]:
    catalog = Catalog.build(tmp_path_factory.mktemp("world") / "catalog", generate(seed=5, count=600))
    made = synthesise(catalog, {"product": PROBLEMS}, seed=5)
    return ShoppingEnvironment(catalog), [certified.problem for certified in made]


@pytest.fixture(scope="module")
def staged() -> StagedPython:
    return stage()


class Player:
    """Plays samples on the world's problems."""

    def __init__(
        self,
        world: tuple[ShoppingEnvironment, list[AnsweredProblem]],
        sandbox: Sandbox,
        upstream: Upstream,
        root: Path,
    ) -> None:
        self.environment, self.problems = world
        self.sandbox, self.upstream, self.root = sandbox, upstream, root

    async def __call__(self, name: str, at: int = 0) -> EpisodeRecord:
        return await self.play(samples.source(name), name, at)

    async def play(self, source: bytes, name: str, at: int) -> EpisodeRecord:
        return await play(
            episode_id=f"{name}-{at}",
            source=source,
            problem=self.problems[at],
            environment=self.environment,
            sandbox=self.sandbox,
            limits=LIMITS,
            slot=0,
            upstream=self.upstream,
            budget=Budget(),
            seed=at,
            socket_root=self.root,
        )

    async def solved(self, name: str) -> int:
        """How many problems a sample solves."""
        records = [await self(name, at) for at in range(len(self.problems))]
        return sum(isinstance(record.verdict, Solved) for record in records)


@pytest.fixture
async def player(
    world: tuple[ShoppingEnvironment, list[AnsweredProblem]], staged: StagedPython, shopper: ShopperServer
) -> AsyncIterator[Player]:
    upstream = Upstream(shopper.base_url, SecretStr("not-needed"), tuple(MODELS), timeout_s=20)
    with tempfile.TemporaryDirectory(prefix="ar", dir="/tmp") as root:
        yield Player(world, SubprocessSandbox(staged), upstream, Path(root))
    await upstream.aclose()


@pytest.mark.parametrize("name", samples.NAMES)
def test_samples_could_be_submitted_as_they_are(name: str) -> None:
    text = samples.source(name).decode()
    assert inspect(text) == []
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= {*sys.stdlib_module_names, "agent_kit", "openai", "src"}


def test_a_sample_can_be_set_to_another_model() -> None:
    changed = samples.source("model_driven", model="some-model").decode()
    assert 'MODEL = "some-model"\n' in changed
    with pytest.raises(ValueError, match="no MODEL line"):
        samples.source("no_model", model="some-model")
    with pytest.raises(ValueError, match="there is no sample"):
        samples.source("nonsense")


@pytest.mark.parametrize("name", ["model_driven", "model_driven_hasty", "openai_package"])
async def test_model_driven_samples_make_only_model_emitted_calls(player: Player, name: str) -> None:
    record = await player(name)
    made = counts(record.events)
    assert isinstance(record.verdict, Solved | Failed), record.verdict
    assert record.events[-1].body["reason"] == "final", record.exit.stderr
    assert made.model_emitted >= 3
    assert made.scripted == 0
    to_atif(record.events)


async def test_an_agent_in_subnet_15s_style_runs_unchanged_and_solves(player: Player) -> None:
    record = await player("react_in_tags")
    made = counts(record.events)
    assert isinstance(record.verdict, Solved), (record.verdict, record.exit.stderr)
    assert made.model_emitted >= 3
    assert made.scripted == 0
    claimed = to_atif(record.events).to_json_dict()["extra"]["claimed_answer"]
    assert claimed["function_name"] == "recommend_product"
    assert claimed["model_emitted"]
    assert judge(evidence(record.events)).grade >= 0.5


async def test_it_does_so_in_the_sandbox_that_foreign_code_is_run_in(player: Player) -> None:
    try:
        strongest = await choose(stage())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    record = await Player((player.environment, player.problems), strongest, player.upstream, player.root)(
        "react_in_tags"
    )
    assert isinstance(record.verdict, Solved), (record.verdict, record.exit.stderr)
    assert counts(record.events).scripted == 0


async def test_the_agent_in_the_documentation_solves_as_it_stands(player: Player) -> None:
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    record = await player.play(found[1].encode(), "guide", 0)
    assert isinstance(record.verdict, Solved), (record.verdict, record.exit.stderr)
    assert counts(record.events).scripted == 0


@pytest.mark.parametrize("name", ["subtask", "no_model"])
async def test_scripted_samples_make_only_scripted_calls(player: Player, name: str) -> None:
    record = await player(name)
    made = counts(record.events)
    assert record.events[-1].body["reason"] == "final", record.exit.stderr
    assert made.model_emitted == 0
    assert made.scripted >= 3
    assert judge(evidence(record.events)).grade == 0.1 or name == "subtask"


async def test_the_crashing_sample_fails_by_its_own_fault(player: Player) -> None:
    record = await player("crashing")
    assert isinstance(record.verdict, Failed)
    assert "RuntimeError" in record.verdict.reason


async def test_the_cheating_sample_gains_nothing(player: Player) -> None:
    record = await player("cheating")
    assert isinstance(record.verdict, Failed), record.verdict
    assert counts(record.events).model_emitted == 0
    assert judge(evidence(record.events)).grade <= 0.3


async def test_care_solves_more_and_reasons_better_than_haste(player: Player) -> None:
    careful, hasty = await player.solved("model_driven"), await player.solved("model_driven_hasty")
    print(f"solved of {PROBLEMS}: careful {careful}, hasty {hasty}")
    assert careful >= PROBLEMS // 4
    assert careful > hasty
    grades = [judge(evidence((await player(n)).events)).grade for n in ("model_driven", "model_driven_hasty")]
    assert grades[0] >= 0.9
    assert grades[1] <= 0.5
