"""A Docker engine for tests: one that runs already, or one that is installed and started here.

Ours has no network bridge and touches no firewall, keeps all it has in a folder of its own, and ends with
the test run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.sandbox.engine import blocking

START_DEADLINE_S = 60.0
INSTALL_DEADLINE_S = 300.0


@contextlib.contextmanager
def docker_engine() -> Iterator[Path]:
    """The socket of an engine. Skips the test where there can be none, and says why."""
    named = os.environ.get("DOCKER_HOST", "")
    if named.startswith("unix://"):
        yield Path(named.removeprefix("unix://"))
        return
    if os.geteuid() != 0:
        pytest.skip("only root can start a Docker engine; set DOCKER_HOST to the socket of one that runs")
    if shutil.which("dockerd") is None:
        _install()
    folder = Path(tempfile.mkdtemp(prefix="arena-docker-"))
    log = folder / "log"
    with log.open("wb") as output:
        engine = subprocess.Popen(
            [
                *("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"),
                *("-H", f"unix://{folder / 'docker.sock'}", "--pidfile", str(folder / "pid")),
                *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        _await_answer(engine, folder / "docker.sock", log)
        yield folder / "docker.sock"
    finally:
        engine.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(30)
        engine.kill()
        engine.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _install() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("no dockerd here, and no apt-get to install it with")
    tried = None
    for command in (["install"], ["update"], ["install"]):
        what = ["-y", "--no-install-recommends", "docker.io"] if command == ["install"] else []
        tried = subprocess.run(
            ["apt-get", *command, *what],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=INSTALL_DEADLINE_S,
            check=False,
        )
        if shutil.which("dockerd"):
            return
    pytest.skip(f"dockerd cannot be installed here: {tried.stderr.strip()[-200:] if tried else ''}")


def _await_answer(engine: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline and engine.poll() is None:
        with contextlib.suppress(Exception), blocking(socket) as client:
            if client.get("/info").is_success:
                return
        time.sleep(0.1)
    said = log.read_text(errors="replace").strip().splitlines()[-3:]
    pytest.skip(f"dockerd does not start here: {' '.join(said)[-400:]}")
