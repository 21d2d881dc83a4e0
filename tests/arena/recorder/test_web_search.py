"""A tool that needs a service outside: its outage is ours and recorded, and its key reaches nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arena.agent_kit.client import ToolError, Tools, connect
from arena.recorder.budget import Budget
from arena.recorder.server import Recorder
from arena.recorder.upstream import Upstream
from problems.problem import Problem
from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.serper import SerperSearch
from problems.shopping.shopping_environment import ShoppingEnvironment
from storage import events
from tests.problems.serper_server import VIOLIN, SerperServer

KEY = "serper-key-of-this-test"
DOWN: tuple[int, Any] = (500, {})
UP: tuple[int, Any] = (200, {"organic": [VIOLIN]})
in_thread = asyncio.to_thread


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.build(tmp_path_factory.mktemp("web") / "catalog", generate(7, 50))


@pytest.fixture
def server() -> Iterator[SerperServer]:
    with SerperServer() as made:
        yield made


@asynccontextmanager
async def serving(
    folder: Path, catalog: Catalog, server: SerperServer, upstream: Upstream, category: str = "web"
) -> AsyncIterator[tuple[Recorder, Tools]]:
    web = SerperSearch(SecretStr(KEY), server.base_url, timeout_s=5, retries=0)
    problem = Problem(problem_id="p", environment="shopping", category=category, query="q")
    world = ShoppingEnvironment(catalog, web=web)
    recorder = Recorder("e1", problem, world, upstream, Budget(), 7)
    async with recorder.serving(folder / "s"):
        _, tools, _, _ = await in_thread(connect, str(folder / "s"))
        yield recorder, tools
    recorder.close("exit", "")
    events.verify(recorder.log.events)
    assert KEY not in json.dumps([event.body for event in recorder.log.events])


def calls(recorder: Recorder) -> list[dict[str, Any]]:
    return [event.body for event in recorder.log.events if event.kind == "tool_call"]


async def test_results_are_recorded_as_the_agent_saw_them(
    short_folder: Path, catalog: Catalog, server: SerperServer, upstream: Upstream
) -> None:
    async with serving(short_folder, catalog, server, upstream) as (recorder, tools):
        seen = await in_thread(tools.call, "web_search", {"query": "what did Aitken play"})
    (call,) = calls(recorder)
    assert (
        call["content"]
        == seen
        == [{"url": VIOLIN["link"], "title": VIOLIN["title"], "content": VIOLIN["snippet"]}]
    )
    assert call["canonical"] == {"q": "what did Aitken play"}
    assert call["repairs"] == ["query was read as q"]
    assert recorder.provider_fault is None


async def test_an_outage_is_told_to_the_agent_and_kept_as_our_fault(
    short_folder: Path, catalog: Catalog, server: SerperServer, upstream: Upstream
) -> None:
    server.replies = [DOWN]
    async with serving(short_folder, catalog, server, upstream) as (recorder, tools):
        with pytest.raises(ToolError, match="not your fault"):
            await in_thread(tools.web_search, q="x")
        assert isinstance(await in_thread(tools.find_product, q="case", page=1), list)
    assert recorder.fault is None
    assert "status 500" in (recorder.provider_fault or "")
    assert [call["error"] is None for call in calls(recorder)] == [False, True]
    assert calls(recorder)[0]["canonical"] == {"q": "x"}
    assert recorder.log.events[-1].body["provider_fault"] == recorder.provider_fault


async def test_a_search_that_succeeds_later_makes_the_outage_good(
    short_folder: Path, catalog: Catalog, server: SerperServer, upstream: Upstream
) -> None:
    server.replies = [DOWN, UP]
    async with serving(short_folder, catalog, server, upstream) as (recorder, tools):
        with pytest.raises(ToolError):
            await in_thread(tools.web_search, q="x")
        assert await in_thread(tools.web_search, q="x")
    assert recorder.provider_fault is None


async def test_a_tool_that_the_problem_does_not_offer_is_refused_and_recorded(
    short_folder: Path, catalog: Catalog, server: SerperServer, upstream: Upstream
) -> None:
    async with serving(short_folder, catalog, server, upstream, "product") as (recorder, tools):
        assert "web_search" not in [spec["function"]["name"] for spec in tools.specs]
        with pytest.raises(ToolError, match="the tools are find_product, view_product_information"):
            await in_thread(tools.call, "web_search", {"q": "x"})
    (call,) = calls(recorder)
    assert call["canonical"] == {"q": "x"}
    assert call["content"] == {"error": call["error"]}
    assert server.requests == []
