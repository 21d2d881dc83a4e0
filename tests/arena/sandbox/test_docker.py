"""The container backend against a real engine: what an end was, what is left, and what is pinned."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.sandbox.docker import DockerSandbox, docker_sandbox
from arena.sandbox.engine import Engine, EngineError
from arena.sandbox.image import ensure_image
from arena.sandbox.sandbox import PLAIN_PYTHON, PYTHON, Job, Limits, SandboxUnavailable, choose
from arena.sandbox.staging import StagedPython
from tests.arena.sandbox.conftest import MakeJob
from tests.arena.sandbox.docker_engine import docker_engine
from tests.arena.sandbox.leftovers import processes_with
from tests.arena.sandbox.test_backends import CONNECT_AND_SLEEP, connection, wait_until_gone

pytestmark = pytest.mark.slow

VALIDATOR = """
import asyncio, json, sys
from pathlib import Path
from arena.sandbox.docker import DockerSandbox
from arena.sandbox.sandbox import PLAIN_PYTHON, Job, Limits
from arena.sandbox.staging import stage

given = json.loads(sys.argv[1])
job = Job(given['source'].encode(), Path(given['recorder']), (*PLAIN_PYTHON, given['mark']))
backend = DockerSandbox(stage(), Path(given['engine']), given['image'])
asyncio.run(backend.run(job, Limits(**given['limits']), slot=3))
"""


@pytest.fixture(scope="session")
def engine() -> Iterator[Path]:
    with docker_engine() as socket:
        yield socket


@pytest.fixture(scope="session")
def image(staged: StagedPython, engine: Path) -> str:
    return ensure_image(staged, engine)


@pytest.fixture
def docker(staged: StagedPython, engine: Path, image: str) -> DockerSandbox:
    return DockerSandbox(staged, engine, image)


async def containers(socket: Path) -> list[str]:
    async with Engine(socket) as engine:
        listed = await engine.ask("GET", "/containers/json", all="1")
        return [container["Id"] for container in listed["items"]]


async def test_the_probe_passes(docker: DockerSandbox) -> None:
    probe = await docker.probe()
    assert [check for check in probe.checks if not check.ok] == []
    assert probe.ok


async def test_an_exit_code_output_and_usage_are_told(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    source = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    ended = await docker.run(job(source), limits, slot=0)
    assert (ended.reason, ended.return_code, ended.stdout, ended.stderr) == ("exit", 3, "out\n", "err\n")
    assert ended.cpu_s > 0
    assert ended.peak_memory_bytes > 1 << 20
    assert ended.leftovers == 0


async def test_a_container_that_the_host_kills_is_not_the_agents_failure(
    docker: DockerSandbox, engine: Path, limits: Limits, open_folder: Path
) -> None:
    async with connection(open_folder) as (recorder, connected):
        job = Job(CONNECT_AND_SLEEP.encode(), recorder, PLAIN_PYTHON)
        playing = asyncio.create_task(docker.run(job, limits, slot=0))
        await asyncio.wait_for(connected.wait(), 20)
        (running,) = await containers(engine)
        async with Engine(engine) as asked:
            await asked.ask("POST", f"/containers/{running}/kill")
        ended = await playing
    assert ended.reason == "setup_error"
    assert "killed from outside" in ended.detail


async def test_packages_and_recorder_are_in_reach_and_nothing_else_can_be_written(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, socket, sys
sys.path.insert(0, os.environ['ARENA_PACKAGES'])
import httpx, numpy, openai, pydantic, rapidfuzz
socket.socket(socket.AF_UNIX).connect(os.environ['ARENA_SOCKET'])
open('here', 'w').write('x')
for path in ('/agent/x', '/python/x', '/x', '/run/arena/x'):
    try:
        open(path, 'w')
        print('wrote', path)
    except OSError:
        pass
"""
    roomy = dataclasses.replace(limits, memory_bytes=256 << 20)
    ended = await docker.run(job(source), roomy, slot=0)
    assert ended.stdout == "['recorder.sock', 'ready.sock'] True\n" or "wrote" not in ended.stdout, (
        ended.stderr
    )
    assert ended.return_code == 0, ended.stderr


async def test_nobody_listens_where_the_start_was_reported(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import socket
try:
    socket.socket(socket.AF_UNIX).connect('/run/arena/ready.sock')
    print('connected')
except OSError as error:
    print(error.strerror)
"""
    ended = await docker.run(job(source), limits, slot=0)
    assert ended.stdout == "Connection refused\n"


async def test_an_agent_cannot_speak_for_the_first_process(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, signal, sys
for fd in range(3, 64):
    try:
        os.write(fd, b'E')
    except OSError:
        pass
for number in (signal.SIGIO, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    os.kill(1, number)
for name in ('mem', 'fd/3', 'environ'):
    try:
        open(f'/proc/1/{name}', 'rb+')
        print('opened', name)
    except OSError:
        pass
sys.exit(7)
"""
    ended = await docker.run(job(source), limits, slot=0)
    assert (ended.reason, ended.return_code, ended.stdout) == ("exit", 7, ""), ended


async def test_an_output_flood_is_cut_and_does_not_hold_up_the_removal(
    docker: DockerSandbox, job: MakeJob, limits: Limits, engine: Path
) -> None:
    source = "import os\nwhile True:\n    os.write(1, b'x' * 65536)"
    ended = await asyncio.wait_for(docker.run(job(source), limits, slot=0), 15)
    assert ended.reason == "output"
    assert len(ended.stdout) == limits.output_bytes
    assert await containers(engine) == []


async def test_memory_and_processes_are_bounded(docker: DockerSandbox, job: MakeJob, limits: Limits) -> None:
    hog = "held = []\nwhile True: held.append(b'x' * (4 << 20))"
    ended = await docker.run(job(hog), limits, slot=0)
    assert ended.reason == "memory", ended
    assert ended.peak_memory_bytes <= limits.memory_bytes
    bomb = """
import os, time
born = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(1000)
        born += 1
except OSError:
    print(born, flush=True)
"""
    ended = await docker.run(job(bomb), limits, slot=0)
    assert (ended.reason, ended.leftovers) == ("exit", 0)
    assert 0 < int(ended.stdout) <= limits.processes


async def test_cpu_is_summed_over_processes_and_the_wall_ends_a_sleeper(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    burner = "import os\nfor _ in range(2): os.fork()\nwhile True: pass"
    ended = await docker.run(job(burner), dataclasses.replace(limits, cpu_s=1.0), slot=0)
    assert ended.reason == "cpu"
    sleeper = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(1000)"
    ended = await docker.run(job(sleeper), dataclasses.replace(limits, wall_s=0.5), slot=0)
    assert (ended.reason, ended.return_code) == ("wall", None)


async def test_the_work_folder_is_bounded_in_bytes_and_files(
    docker: DockerSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os
made = 0
try:
    while made < 100000:
        os.close(os.open(f'/work/{made}', os.O_CREAT))
        made += 1
except OSError as error:
    print(made < 100000, error.strerror)
"""
    ended = await docker.run(job(source), limits, slot=0)
    assert ended.stdout == "True No space left on device\n"


async def test_the_agents_fault_and_ours_are_told_apart(
    docker: DockerSandbox, job: MakeJob, recorder: Path, limits: Limits, open_folder: Path
) -> None:
    assert (await docker.run(job("def ("), limits, slot=0)).reason == "exit"
    ended = await docker.run(Job(b"", recorder, ("/no/such/program",)), limits, slot=0)
    assert ended.reason == "setup_error"
    assert "/no/such/program" in ended.detail
    absent = Job(b"", open_folder / "absent.sock", PLAIN_PYTHON)
    assert (await docker.run(absent, limits, slot=0)).reason == "setup_error"
    ended = await docker.run(Job(b"", recorder, (PYTHON, "-I", "-c", "print(1)")), limits, slot=0)
    assert ended.stdout == "1\n"


async def test_a_cancelled_run_leaves_no_container(
    docker: DockerSandbox, limits: Limits, open_folder: Path, engine: Path
) -> None:
    mark = f"cancelled-{secrets.token_hex(8)}"
    async with connection(open_folder) as (recorder, connected):
        job = Job(CONNECT_AND_SLEEP.encode(), recorder, (*PLAIN_PYTHON, mark))
        running = asyncio.create_task(docker.run(job, limits, slot=0))
        await asyncio.wait_for(connected.wait(), 30)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert processes_with(mark) == []
    assert await containers(engine) == []


async def test_a_killed_validator_takes_its_containers_along_and_the_next_removes_them(
    docker: DockerSandbox, job: MakeJob, limits: Limits, open_folder: Path, engine: Path, image: str
) -> None:
    mark = f"orphan-{secrets.token_hex(8)}"
    async with connection(open_folder) as (recorder, connected):
        given = {
            **{"source": CONNECT_AND_SLEEP, "mark": mark, "recorder": str(recorder), "image": image},
            **{"engine": str(engine), "limits": dataclasses.asdict(limits)},
        }
        validator = await asyncio.create_subprocess_exec(sys.executable, "-c", VALIDATOR, json.dumps(given))
        await asyncio.wait_for(connected.wait(), 60)
        os.kill(validator.pid, signal.SIGKILL)
        await asyncio.wait_for(validator.wait(), 10)
    await asyncio.to_thread(wait_until_gone, mark, 20.0)
    assert (await docker.run(job("print(1)"), limits, slot=0)).stdout == "1\n"
    assert await containers(engine) == []


async def test_an_image_is_named_by_its_content_or_not_at_all(
    staged: StagedPython, engine: Path, image: str
) -> None:
    with pytest.raises(SandboxUnavailable, match="digest"):
        DockerSandbox(staged, engine, "arena-sandbox:latest")
    assert image.startswith("sha256:")
    assert await asyncio.to_thread(ensure_image, staged, engine) == image


async def test_an_image_that_was_pruned_is_made_again(
    staged: StagedPython, engine: Path, docker: DockerSandbox, job: MakeJob, limits: Limits, image: str
) -> None:
    async with Engine(engine) as asked:
        await asked.ask("DELETE", f"/images/{image}", force="1")
        with pytest.raises(EngineError):
            await asked.ask("GET", f"/images/{image}/json")
    assert (await docker.run(job(""), limits, slot=0)).reason == "setup_error"
    again = await asyncio.to_thread(ensure_image, staged, engine)
    assert (await DockerSandbox(staged, engine, again).run(job(""), limits, slot=0)).reason == "exit"


async def test_where_only_docker_holds_it_is_chosen(
    staged: StagedPython, engine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
    assert (await choose(staged, backend="docker")).name == "docker"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await choose(staged)).name == "docker"


async def test_an_engine_that_is_not_there_is_asked_for(
    staged: StagedPython, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'none.sock'}")
    with pytest.raises(SandboxUnavailable, match=r"apt-get install docker\.io"):
        await docker_sandbox(staged)
