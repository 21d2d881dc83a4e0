"""Every hostile agent against every sandbox: two must hold, and where nothing is contained it must show."""

from __future__ import annotations

import ast
import asyncio
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arena.sandbox.sandbox import SandboxUnavailable
from tests.arena.sandbox.docker_engine import docker_engine
from tests.arena.sandbox.leftovers import own_groups
from tests.hostile.backends import CONTAINED, backend
from tests.hostile.expectations import all_expectations
from tests.hostile.seen import AGENTS, Expectation
from tests.hostile.stage import Result, run_suite

Results = dict[str, Result]
ALL = all_expectations()
NAMES = [each.name for each in ALL]
BITING = [each for each in ALL if each.bare == "always" or (each.bare == "as root" and os.geteuid() == 0)]
"""What succeeds without a sandbox, for certain."""

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the agents' system-call numbers are those of x86_64"
)


def _chosen(request: pytest.FixtureRequest, test: Callable[..., None]) -> list[Expectation]:
    """Those whose test was asked for: with -k one of them, one is run."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test
    }
    return [each for each in ALL if each.name in wanted]


def _run(name: str, chosen: list[Expectation]) -> Results:
    async def run() -> list[Result]:
        async with backend(name) as sandbox:
            return await run_suite(sandbox, chosen, contained=name in CONTAINED)

    try:
        return {result.name: result for result in asyncio.run(run())}
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def in_bubblewrap(request: pytest.FixtureRequest) -> Results:
    return _run("bubblewrap", _chosen(request, test_bubblewrap_holds))


@pytest.fixture(scope="module")
def in_docker(request: pytest.FixtureRequest) -> Iterator[Results]:
    with docker_engine() as socket, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{socket}")
        yield _run("docker", _chosen(request, test_docker_holds))


@pytest.fixture(scope="module")
def uncontained(request: pytest.FixtureRequest) -> Results:
    return _run("subprocess", _chosen(request, test_without_a_sandbox_the_same_attack_succeeds))


@pytest.mark.parametrize("name", NAMES)
def test_bubblewrap_holds(in_bubblewrap: Results, name: str) -> None:
    result = in_bubblewrap[name]
    assert result.state == "held", result.why


def test_no_control_group_is_left(in_bubblewrap: Results) -> None:
    assert own_groups() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_docker_holds(in_docker: Results, name: str) -> None:
    result = in_docker[name]
    assert result.state == "held", result.why


@pytest.mark.parametrize("name", [each.name for each in BITING])
def test_without_a_sandbox_the_same_attack_succeeds(uncontained: Results, name: str) -> None:
    result = uncontained[name]
    assert result.state == "breached", result.why


def test_every_agent_is_expected_something_of_and_says_what_it_tries() -> None:
    files = {path.stem: ast.get_docstring(ast.parse(path.read_text())) for path in AGENTS.glob("*.py")}
    assert set(files) == set(NAMES)
    assert [name for name, text in files.items() if not text] == []
    assert len(files) >= 50


def test_the_documentation_names_every_agent() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hostile_suite.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []
