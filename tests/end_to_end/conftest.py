"""A small world, the real sandbox, and the scripted shopper, each made once for the module that wants it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.staging import stage
from problems.shopping.world import World, prepare_generated
from tests.end_to_end.books import Books, books
from tests.end_to_end.chaos import EPISODES, chaos_in
from tests.end_to_end.chaos import Provider as PuppetProvider
from tests.end_to_end.provider import Provider

UNDISTURBED_S = 200.0


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return prepare_generated(tmp_path_factory.mktemp("world"), seed=5, products=300, public=2, pool=6)


@pytest.fixture(scope="session")
def sandbox() -> BubblewrapSandbox:
    executable = shutil.which("bwrap")
    if executable is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    return BubblewrapSandbox(stage(), Path(executable))


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="session")
def undisturbed(lasting_folder: Path) -> Books:
    """What the race that is then disturbed comes to when nothing happens to it."""
    with PuppetProvider() as provider, chaos_in(lasting_folder / "calm", provider.base_url) as calm:
        calm.run(deadline_s=UNDISTURBED_S)
        found = asyncio.run(books(calm))
        assert calm.end() == []
    # On a busy host a lease may run out without anybody's doing.
    stored = {name: count for name, count in found.counts.items() if name != "leases"}
    assert stored == dict.fromkeys(stored, EPISODES), "nothing was stored twice, and nothing unscored"
    return found
