"""Every sample agent, played in the real sandbox and stored: what its traces are made of.

All of them are played once; the tests look at the store from different sides.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import atif
import pytest

from arena import samples
from arena.sandbox.bubblewrap import BubblewrapSandbox
from problems.shopping.world import World
from storage.database import Database
from storage.embedded import EmbeddedServer
from storage.events import verify
from storage.traces import StoredTrace
from storage.trajectory import counts
from tests.end_to_end.floor import RULES, floor
from tests.end_to_end.provider import Provider

Select = Callable[[str], list[StoredTrace]]

DATABASE = "arena_kinds"
MODEL_DRIVEN = ("model_driven", "model_driven_hasty", "openai_package")
SEARCHES = ("find_product", "view_product_information")


@pytest.fixture(scope="module")
def played(
    postgres: EmbeddedServer, world: World, sandbox: BubblewrapSandbox, provider: Provider
) -> list[StoredTrace]:
    """The store's traces after every sample has qualified."""

    async def play() -> list[StoredTrace]:
        url = postgres.url("postgres")
        admin = await asyncpg.connect(user=url.username, database="postgres", host=url.query["host"])
        try:
            await admin.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await admin.close()
        own = postgres.url(DATABASE).render_as_string(hide_password=False)
        async with Database.open(own, Path()) as database:
            await database.migrate()
            async with floor(database, world, sandbox, provider.base_url) as arena:
                race_id = await arena.open_race(samples.NAMES)
                await arena.play(race_id, "qualifying")
                return await arena.traces(race_id)

    return asyncio.run(play())


@pytest.fixture
def of(played: list[StoredTrace]) -> Select:
    """The traces of one sample."""
    return lambda sample: [trace for trace in played if trace.agent_name == sample]


def calls(trajectory: dict[str, Any], *, scripted: bool) -> list[str]:
    """Names of a trajectory's executed tool calls, by whether the script or the model made them."""
    return [
        call["function_name"]
        for step in trajectory["steps"]
        if step["source"] == "agent" and (step.get("llm_call_count") == 0) == scripted
        for call in step.get("tool_calls") or ()
        if scripted or call["extra"]["executed"]
    ]


def test_every_agent_has_one_scored_trace_of_every_problem(played: list[StoredTrace]) -> None:
    assert sorted((trace.agent_name, trace.problem_id) for trace in played) == sorted(
        {(name, trace.problem_id) for trace in played for name in samples.NAMES}
    )
    assert len(played) == len(samples.NAMES) * RULES.public_size
    assert {trace.verdict for trace in played} == {"solved", "failed"}
    assert all(trace.final for trace in played)


def test_every_stored_trajectory_is_valid_atif(played: list[StoredTrace]) -> None:
    for trace in played:
        trajectory = atif.Trajectory.model_validate(trace.trajectory)
        assert trajectory.session_id == str(trace.episode_id)
        assert trajectory.trajectory_id == trace.chain_head


def test_every_stored_hash_chain_verifies(played: list[StoredTrace]) -> None:
    for trace in played:
        assert verify(trace.events) == trace.chain_head


def test_the_stored_counts_agree_with_record_and_trajectory(played: list[StoredTrace]) -> None:
    for trace in played:
        recorded = counts(trace.events)
        assert (trace.model_emitted, trace.scripted) == (recorded.model_emitted, recorded.scripted)
        claimed = (trace.trajectory.get("extra") or {}).get("claimed_answer")
        by_model = [] if claimed is None else [claimed["model_emitted"]]
        assert len(calls(trace.trajectory, scripted=False)) + by_model.count(True) == trace.model_emitted
        assert len(calls(trace.trajectory, scripted=True)) + by_model.count(False) == trace.scripted
        executed = sum(e.kind == "tool_call" for e in trace.events)
        assert trace.model_emitted + trace.scripted == executed + len(by_model)


def test_without_a_model_every_tool_call_is_scripted(of: Select) -> None:
    for trace in of("no_model"):
        assert trace.scripted > 0
        assert trace.model_emitted == 0
        assert trace.prompt_tokens == trace.completion_tokens == 0


@pytest.mark.parametrize("name", MODEL_DRIVEN)
def test_where_the_model_drives_it_emitted_every_tool_call_itself(of: Select, name: str) -> None:
    for trace in of(name):
        assert trace.model_emitted > 0
        assert trace.scripted == 0
        assert trace.completion_tokens > 0


def test_a_sub_task_agents_searches_are_scripted_although_a_model_picks(of: Select) -> None:
    for trace in of("subtask"):
        made = calls(trace.trajectory, scripted=True)
        assert set(SEARCHES) <= set(made)
        assert not set(SEARCHES) & set(calls(trace.trajectory, scripted=False))
        assert trace.completion_tokens > 0


def test_a_crashing_agent_fails_by_its_own_fault(of: Select) -> None:
    for trace in of("crashing"):
        assert trace.verdict == "failed"
        assert (trace.reason or "").startswith("crashed")
        assert trace.model_emitted > 0, "it began well"


def test_what_a_cheat_forges_is_no_call_of_its_trajectory(of: Select) -> None:
    for trace in of("cheating"):
        assert trace.verdict == "failed"
        assert trace.model_emitted == 0
        executed = [event.body for event in trace.events if event.kind == "tool_call"]
        assert calls(trace.trajectory, scripted=True) == [call["name"] for call in executed]
        assert len([call for call in executed if call["name"] == "recommend_product"]) == 1, (
            "neither the forged call before nor the late one after it"
        )
        steps = json.dumps(trace.trajectory["steps"])
        assert '"solved": true' not in steps
        assert "canonical" not in steps
