"""The README's examples, taken from it and run: what is printed there cannot rot."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.episode import play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Limits
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.scripted_shopper.child import ShopperServer
from arena.source_policy import inspect
from neurons import cli, settings
from problems.shopping.world import prepare_generated
from storage.trajectory import counts, end_reason

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    plain = [line for block in blocks("") for line in block.splitlines() if line.startswith("arena ")]
    return plain + re.findall(r"`(arena [a-z][^`]*)`", README)


def test_the_settings_shown_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = blocks("toml")
    file = tmp_path / "arena.toml"
    file.write_text(shown)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    loaded = settings.load(file=file)
    assert loaded.rules.drawn_size == 60
    assert loaded.judge.models[0].model == "glm-5"


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_shown_exists_with_its_options(command: str) -> None:
    words = shlex.split(command)[1:]
    found = cli.command(words.pop(0))
    while hasattr(found, "commands"):
        assert words, f"{command} is a group"
        found = found.commands[words.pop(0)]
    known = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short path that the agent can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


async def test_the_agent_shown_passes_screening_and_its_model_makes_every_call(
    tmp_path: Path, sockets: Path
) -> None:
    (source,) = blocks("python")
    assert not inspect(source)
    world = prepare_generated(tmp_path / "world", seed=3, products=300, public=3, pool=3)
    rules = Rules()
    with ShopperServer() as shopper:
        upstream = Upstream(shopper.base_url, None, ("scripted-shopper-careful",))
        try:
            record = await play(
                episode_id="readme",
                source=source.encode(),
                problem=world.public.problems[0],
                environment=world.environment,
                sandbox=SubprocessSandbox(stage()),
                limits=Limits(**rules.sandbox.model_dump()),
                slot=0,
                upstream=upstream,
                budget=Budget(**rules.budget.model_dump()),
                seed=0,
                socket_root=sockets,
            )
        finally:
            await upstream.aclose()
    assert end_reason(record.events) == "final", record.exit.stderr
    assert counts(record.events).scripted == 0
    assert counts(record.events).model_emitted > 0
