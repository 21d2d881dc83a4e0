"""What a process that plays episodes needs of its host: a sandbox that holds, a socket folder, a world."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Sandbox, choose
from arena.sandbox.staging import socket_folder, stage
from neurons.settings import ModelSettings, ProblemSettings, SettingsError
from problems.shopping.world import World, prepare_generated, prepare_shoppingbench


def _unsaid(note: str) -> None:
    pass


async def ready_sandbox(*, unsafe: bool, say: Callable[[str], None] = _unsaid) -> Sandbox:
    """The strongest sandbox whose probe passes. Raises SandboxUnavailable unless `unsafe`."""
    say("staging a Python for agents")
    staged = await asyncio.to_thread(stage)
    say("probing with a canary")
    sandbox = await choose(staged, unsafe=unsafe)
    say(f"{sandbox.name}, {len(staged.packages)} packages for agents")
    return sandbox


@contextlib.contextmanager
def socket_root() -> Iterator[Path]:
    """A folder for the recorders' sockets that the agents' users can enter but not list."""
    with tempfile.TemporaryDirectory(dir=socket_folder(), prefix="arena-") as folder:
        root = Path(folder)
        root.chmod(0o711)
        yield root


@contextlib.asynccontextmanager
async def provider(model: ModelSettings) -> AsyncIterator[Upstream]:
    """The endpoint that agents' model calls go to. Raises SettingsError when none is set."""
    if model.base_url is None or not model.models:
        raise SettingsError(
            "no model endpoint is set: give model.base_url and model.models in arena.toml "
            "(or ARENA_MODEL__BASE_URL and ARENA_MODEL__MODELS='[\"name\"]')"
        )
    upstream = Upstream(model.base_url, model.api_key, model.models, model.timeout_s, model.retries)
    try:
        yield upstream
    finally:
        await upstream.aclose()


def prepared_world(problems: ProblemSettings, folder: Path, *, public: int) -> World:
    """The world in `folder`, made when it is not there. Raises WorldError, ImportFailed, SynthesisError."""
    if problems.path is not None:
        return prepare_shoppingbench(folder, problems.path.expanduser(), seed=problems.seed, public=public)
    return prepare_generated(
        folder, seed=problems.seed, products=problems.products, public=public, pool=problems.pool
    )
