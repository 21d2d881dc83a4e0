"""A staged Python, the real sandbox, and jobs that run a source as it stands."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.sandbox import PLAIN_PYTHON, Job, Limits
from arena.sandbox.staging import StagedPython, socket_folder, stage

MakeJob = Callable[[str], Job]


@pytest.fixture(scope="session")
def staged() -> StagedPython:
    return stage()


@pytest.fixture(scope="session")
def bwrap() -> Path:
    found = shutil.which("bwrap")
    if found is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    return Path(found)


@pytest.fixture
def sandbox(staged: StagedPython, bwrap: Path) -> BubblewrapSandbox:
    return BubblewrapSandbox(staged, bwrap)


@pytest.fixture
def recorder() -> Iterator[Path]:
    """A socket that listens where a recorder's would."""
    folder = socket_folder()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "recorder.sock"))
        server.listen()
        yield folder / "recorder.sock"
    shutil.rmtree(folder)


@pytest.fixture
def job(recorder: Path) -> MakeJob:
    return lambda source: Job(source.encode(), recorder, PLAIN_PYTHON)


@pytest.fixture
def limits() -> Limits:
    return Limits(
        wall_s=20,
        cpu_s=10,
        memory_bytes=96 << 20,
        processes=16,
        file_bytes=4 << 20,
        work_bytes=8 << 20,
        output_bytes=64 << 10,
        open_files=64,
    )
