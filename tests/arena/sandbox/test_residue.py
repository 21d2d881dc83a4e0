"""The second look for what is left: the living count, whatever they show; the dead do not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arena.sandbox.residue import processes_of
from arena.sandbox.staging import stage

UID = 60_999
"""Nobody's."""
LEADERLESS = """
import ctypes, threading, time
def go_on():
    print("up", flush=True)
    time.sleep(60)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall({exit}, 0)
"""
EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes of another uid")


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    staged = stage()
    child = subprocess.Popen(
        [str(staged.python), "-I", "-S", "-c", code],
        stdout=subprocess.PIPE,
        env={"LD_LIBRARY_PATH": str(staged.libraries)},
        cwd="/",
        user=UID,
        group=UID,
        extra_groups=[],
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=20)


def test_who_runs_is_left_and_who_died_is_not_though_nobody_has_collected_it() -> None:
    with running("print('up', flush=True); import time; time.sleep(60)") as child:
        assert processes_of(UID) == [child.pid]
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert processes_of(UID) == []


def test_threads_that_outlive_the_first_are_left() -> None:
    number = EXIT_OF_A_THREAD.get(os.uname().machine)
    if number is None:
        pytest.skip("the number of exit(2) is not known for this machine")
    with running(LEADERLESS.format(exit=number)) as child:
        state = ""
        while state != "Z":
            state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert processes_of(UID) == [child.pid]
