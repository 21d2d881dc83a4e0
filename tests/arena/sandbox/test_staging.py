"""The agents' Python: complete, out of the host's reach for changes, built once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

from arena.sandbox.layers import build_once
from arena.sandbox.sandbox import SandboxUnavailable
from arena.sandbox.staging import PACKAGES, StagedPython, check_reachable, closure, socket_folder, stage


def test_every_package_is_staged_with_what_it_requires(staged: StagedPython) -> None:
    assert set(PACKAGES) <= set(staged.packages)
    assert {"anyio", "certifi", "pydantic-core", "typing-extensions"} <= set(staged.packages)
    assert all(staged.packages.values())


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(SandboxUnavailable, match="no-such-package"):
        closure(["no-such-package"])


def test_any_uid_can_read_all_of_it_and_only_its_owner_can_write(staged: StagedPython) -> None:
    for part in (staged.interpreter, staged.packages_folder, staged.kit, staged.support):
        for folder, _, files in os.walk(part):
            assert Path(folder).stat().st_mode & 0o777 == 0o755, folder
            for name in files:
                assert (Path(folder) / name).stat().st_mode & 0o777 in (0o644, 0o755), name


def test_the_interpreter_knows_nothing_of_the_hosts(staged: StagedPython) -> None:
    source = (
        "import sys, ssl, sqlite3, ctypes, json; print(sys.prefix, *sys.path, json.__cached__, sep='\\n')"
    )
    seen = subprocess.run(
        [str(staged.python), "-I", "-c", source],
        env={"LD_LIBRARY_PATH": str(staged.libraries)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout.splitlines()
    assert all(line.startswith(str(staged.interpreter)) for line in seen)
    assert Path(seen[-1]).is_file()


def test_staging_again_builds_nothing(staged: StagedPython) -> None:
    before = staged.python.stat().st_ino
    assert stage() == staged
    assert staged.python.stat().st_ino == before


def test_a_folder_that_is_no_agent_kit_is_refused(open_folder: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"launch\.py"):
        stage(kit=open_folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox runs under the same uid")
def test_a_root_that_no_other_uid_can_reach_is_refused(open_folder: Path) -> None:
    shut = open_folder / "shut"
    shut.mkdir(mode=0o700)
    with pytest.raises(SandboxUnavailable, match="chmod o\\+x"):
        stage(shut / "staged")


def test_a_socket_folder_is_in_reach_and_short_enough() -> None:
    folder = socket_folder()
    check_reachable(folder)
    assert len(str(folder / "recorder.sock")) < 100
    folder.rmdir()


def test_a_build_that_fails_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        build_once(tmp_path, "part", "key", fail)
    assert list(tmp_path.glob("*part-*")) == []
    assert build_once(tmp_path, "part", "key", lambda folder: (folder / "whole").touch()).name == "part-key"


def test_what_a_killed_build_left_is_not_taken_for_whole(tmp_path: Path) -> None:
    unfinished = tmp_path / ".part-old.building"
    unfinished.mkdir()
    built = build_once(tmp_path, "part", "new", lambda folder: (folder / "whole").touch())
    assert [path.name for path in built.iterdir()] == ["whole"]
    assert not unfinished.exists()


def _build_and_count(root: Path) -> None:
    def build(folder: Path) -> None:
        (root / f"built-by-{os.getpid()}").touch()
        (folder / "whole").touch()

    build_once(root, "part", "key", build)


def test_processes_at_once_build_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=_build_and_count, args=(tmp_path,)) for _ in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(30)
    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    assert len(list(tmp_path.glob("built-by-*"))) == 1
