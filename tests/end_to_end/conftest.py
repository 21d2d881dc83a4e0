"""A small world, the real sandbox, and the scripted shopper, each made once for the module that wants it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.staging import stage
from problems.shopping.world import World, prepare_generated
from tests.end_to_end.provider import Provider


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
