from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from arena.recorder.upstream import Upstream
from tests.arena.puppet import KEY, Puppet


@pytest.fixture(scope="session")
def puppet_server() -> Iterator[Puppet]:
    with Puppet() as puppet:
        yield puppet


@pytest.fixture
def puppet(puppet_server: Puppet) -> Puppet:
    puppet_server.requests.clear()
    puppet_server.keys.clear()
    puppet_server.well = True
    puppet_server.go_on.clear()
    puppet_server.keys_taken = None
    return puppet_server


@pytest.fixture
async def upstream(puppet: Puppet) -> AsyncIterator[Upstream]:
    made = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1", "puppet-2"), timeout_s=10, pause_s=0.01)
    yield made
    await made.aclose()


@pytest.fixture
async def dead_upstream() -> AsyncIterator[Upstream]:
    """A provider that refuses connections."""
    made = Upstream(
        "http://127.0.0.1:9/v1", SecretStr(KEY), ("puppet-1",), timeout_s=5, retries=1, pause_s=0.01
    )
    yield made
    await made.aclose()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket."""
    with tempfile.TemporaryDirectory(prefix="ar", dir="/tmp") as name:
        yield Path(name)
