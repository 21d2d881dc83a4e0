"""A web problem played whole: an outage of the search is ours, unless the agent answered all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Protocol

import pytest
from pydantic import SecretStr

from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.verdict import Failed, Solved, Unscored
from problems.problem import AnsweredProblem, Problem
from problems.shopping.catalog import Catalog
from problems.shopping.product import Product
from problems.shopping.serper import SerperSearch
from problems.shopping.shopping_environment import ShoppingEnvironment
from storage.trajectory import to_atif
from tests.arena.test_episode import LIMITS
from tests.problems.serper_server import SerperServer

KEY = "serper-key-of-this-test"
TITLE = "Heart String Violin Bow"
PROBLEM = AnsweredProblem(
    problem=Problem(problem_id="w", environment="shopping", category="web", query="A bow for what he played"),
    answer={"reward": {"product_id": "1", "title": TITLE}, "Knowledge_Attribute": "Violin"},
    leak_keys=(),
)


class Play(Protocol):
    async def __call__(self, *lines: str) -> EpisodeRecord: ...


@pytest.fixture
def server() -> Iterator[SerperServer]:
    with SerperServer() as made:
        yield made


@pytest.fixture
def environment(server: SerperServer, tmp_path: Path) -> ShoppingEnvironment:
    products = [Product(product_id="1", title=TITLE), Product(product_id="2", title="Drum")]
    web = SerperSearch(SecretStr(KEY), server.base_url, timeout_s=5, retries=1, pause_s=0)
    return ShoppingEnvironment(Catalog.build(tmp_path / "catalog", products), web=web)


@pytest.fixture
async def played(environment: ShoppingEnvironment, upstream: Upstream, short_folder: Path) -> Play:
    async def run(*lines: str) -> EpisodeRecord:
        search = "try:\n    tools.web_search(query='what did he play')\nexcept Exception as e:\n    print(e)"
        record = await play(
            episode_id="e",
            source=(dedent(f"from agent_kit import tools\n{search}\n") + "\n".join(lines)).encode(),
            problem=PROBLEM,
            environment=environment,
            sandbox=SubprocessSandbox(stage()),
            limits=LIMITS,
            slot=0,
            upstream=upstream,
            budget=Budget(),
            seed=1,
            socket_root=short_folder,
        )
        assert (
            KEY not in json.dumps([e.body for e in record.events]) + record.exit.stdout + record.exit.stderr
        )
        return record

    return run


RIGHT = ("tools.recommend_product(product_ids='1')", "tools.terminate(status='success')")
WRONG = ("tools.recommend_product(product_ids='2')", "tools.terminate(status='success')")


async def test_an_outage_without_an_answer_is_unscored(played: Play, server: SerperServer) -> None:
    server.replies = [(500, {})]
    record = await played("pass")
    assert isinstance(record.verdict, Unscored)
    assert "web search" in record.verdict.reason
    assert "not your fault" in record.exit.stdout


async def test_an_agent_that_answers_in_spite_of_an_outage_is_scored(
    played: Play, server: SerperServer
) -> None:
    server.replies = [(500, {})]
    assert isinstance((await played(*RIGHT)).verdict, Solved)
    assert isinstance((await played(*WRONG)).verdict, Failed)


async def test_an_agent_that_could_search_and_does_not_answer_has_failed(played: Play) -> None:
    record = await played("pass")
    assert record.verdict == Failed("no answer", record.verdict.outcome)  # type: ignore[union-attr]


async def test_a_repair_stands_in_the_trajectory_beside_what_came_of_the_call(played: Play) -> None:
    record = await played(*RIGHT)
    first = to_atif(record.events).to_json_dict()["steps"][1]
    (result,) = first["observation"]["results"]
    assert first["tool_calls"][0]["arguments"] == {"q": "what did he play"}
    assert result["extra"]["repairs"] == ["query was read as q"]
    assert result["extra"]["error"] is None


async def test_repaired_and_refused_and_clean_calls_are_told_apart(played: Play) -> None:
    record = await played(
        "tools.call('find_product', {'q': 'bow', 'page': '1'})",
        "tools.call('find_product', {'q': 'bow', 'page': 1})",
        "try:\n    tools.call('find_product', {'q': 'bow', 'page': 9})\nexcept Exception: pass",
    )
    extras = [
        step["observation"]["results"][0]["extra"]
        for step in to_atif(record.events).to_json_dict()["steps"][2:]
    ]
    assert [(bool(e["repairs"]), bool(e["error"])) for e in extras] == [
        (True, False),
        (False, False),
        (False, True),
    ]
