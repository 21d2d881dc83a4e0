"""Whose fault an end was, and what is left when things break on our side."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arena.sandbox.appearance import CONSTANTS
from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.inside import SLOTS
from arena.sandbox.launching import launcher_of
from arena.sandbox.limits import FOLDER, Hierarchies, sweep_stale
from arena.sandbox.probe import CHECKS
from arena.sandbox.sandbox import PLAIN_PYTHON, PYTHON, Job, Limits, Sandbox, SandboxUnavailable, choose
from arena.sandbox.staging import StagedPython
from arena.sandbox.subprocess_backend import SubprocessSandbox
from tests.arena.sandbox.conftest import MakeJob
from tests.arena.sandbox.leftovers import own_groups, processes_with

CONNECT_AND_SLEEP = """
import os, socket, time
socket.socket(socket.AF_UNIX).connect(os.environ['ARENA_SOCKET'])
time.sleep(1000)
"""


@contextlib.asynccontextmanager
async def connection(folder: Path) -> AsyncIterator[tuple[Path, asyncio.Event]]:
    """A recorder's socket, and the event of an agent connecting: the sign that it runs."""
    connected = asyncio.Event()
    server = await asyncio.start_unix_server(lambda *_: connected.set(), folder / "s")
    try:
        yield folder / "s", connected
    finally:
        server.close()


def running_with(mark: str) -> bool:
    return bool(processes_with(mark))


@pytest.fixture(params=["bubblewrap", "subprocess"])
def either(request: pytest.FixtureRequest, staged: StagedPython) -> Sandbox:
    if request.param == "subprocess":
        return SubprocessSandbox(staged)
    sandbox: Sandbox = request.getfixturevalue("sandbox")
    return sandbox


async def test_an_agents_own_exit_code_is_its_own(either: Sandbox, job: MakeJob, limits: Limits) -> None:
    ended = await either.run(job("import sys; print('out'); sys.exit(3)"), limits, slot=0)
    assert (ended.reason, ended.return_code, ended.stdout, ended.leftovers) == ("exit", 3, "out\n", 0)
    assert ended.cpu_s > 0
    assert ended.peak_memory_bytes > 1 << 20


async def test_the_packages_and_the_recorder_are_in_reach(
    either: Sandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, socket, sys
sys.path.insert(0, os.environ['ARENA_PACKAGES'])
import httpx, numpy, openai, pydantic, rapidfuzz
assert os.path.exists(os.environ['ARENA_KIT'] + '/launch.py')
socket.socket(socket.AF_UNIX).connect(os.environ['ARENA_SOCKET'])
open('here', 'w').write('x')
print(os.environ['EXTRA'])
"""
    wanted = dataclasses.replace(job(source), environment={"EXTRA": "passed on"})
    roomy = dataclasses.replace(limits, memory_bytes=256 << 20)
    ended = await either.run(wanted, roomy, slot=0)
    assert ended.stdout == "passed on\n", ended.stderr


async def test_the_environment_of_a_job_cannot_replace_the_sandboxs_own(
    either: Sandbox, job: MakeJob, limits: Limits
) -> None:
    wanted = dataclasses.replace(
        job("import os; print(os.environ['ARENA_SOCKET'])"), environment={"ARENA_SOCKET": "x"}
    )
    ended = await either.run(wanted, limits, slot=0)
    assert ended.stdout.strip() != "x"


async def test_stopping_ends_the_job_without_fault(either: Sandbox, job: MakeJob, limits: Limits) -> None:
    stop = asyncio.Event()
    stop.set()
    ended = await either.run(job("import time; time.sleep(1000)"), limits, slot=0, stop=stop)
    assert (ended.reason, ended.return_code, ended.leftovers) == ("stopped", None, 0)


async def test_a_missing_recorder_is_our_fault(sandbox: Sandbox, limits: Limits, open_folder: Path) -> None:
    absent = Job(b"", open_folder / "absent.sock", PLAIN_PYTHON)
    assert (await sandbox.run(absent, limits, slot=0)).reason == "setup_error"
    ordinary = open_folder / "file"
    ordinary.touch()
    assert (await sandbox.run(Job(b"", ordinary, PLAIN_PYTHON), limits, slot=0)).reason == "setup_error"


async def test_a_command_that_does_not_exist_is_our_fault(
    either: Sandbox, recorder: Path, limits: Limits
) -> None:
    ended = await either.run(Job(b"", recorder, ("/no/such/program",)), limits, slot=0)
    assert ended.reason == "setup_error"
    assert "/no/such/program" in ended.detail


async def test_a_damaged_staging_is_our_fault(
    staged: StagedPython, bwrap: Path, job: MakeJob, limits: Limits, open_folder: Path
) -> None:
    lost = dataclasses.replace(staged, packages_folder=open_folder / "gone")
    ended = await BubblewrapSandbox(lost, bwrap).run(job("print('ran')"), limits, slot=0)
    assert ended.reason == "setup_error"
    assert "gone" in ended.detail
    lost = dataclasses.replace(staged, interpreter=open_folder / "gone")
    assert (
        await BubblewrapSandbox(lost, bwrap).run(job("print('ran')"), limits, slot=0)
    ).reason == "setup_error"


async def test_a_bubblewrap_that_cannot_start_is_our_fault(
    staged: StagedPython, job: MakeJob, limits: Limits, open_folder: Path
) -> None:
    broken = open_folder / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    ended = await BubblewrapSandbox(staged, broken).run(job("print('ran')"), limits, slot=0)
    assert ended.reason == "setup_error"
    assert "No permissions" in ended.detail


async def test_an_agent_that_prints_like_the_sandbox_is_still_judged_by_its_end(
    sandbox: Sandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, sys
for fd in range(3, 64):
    try:
        os.write(fd, b'E')
    except OSError:
        pass
sys.exit('bwrap: setting up uid map: Permission denied')
"""
    ended = await sandbox.run(job(source), limits, slot=0)
    assert (ended.reason, ended.return_code) == ("exit", 1)


async def test_a_slot_runs_one_job_at_a_time(either: Sandbox, job: MakeJob, limits: Limits) -> None:
    stop = asyncio.Event()
    first = asyncio.create_task(either.run(job("import time; time.sleep(1000)"), limits, slot=5, stop=stop))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="slot 5"):
        await either.run(job(""), limits, slot=5)
    stop.set()
    assert (await first).reason == "stopped"
    assert (await either.run(job(""), limits, slot=5)).reason == "exit"


async def test_a_slot_has_a_uid_of_its_own(sandbox: Sandbox, job: MakeJob, limits: Limits) -> None:
    with pytest.raises(ValueError, match="slot"):
        await sandbox.run(job(""), limits, slot=SLOTS)


async def test_a_cancelled_run_leaves_nothing(sandbox: Sandbox, limits: Limits, open_folder: Path) -> None:
    mark = f"cancelled-{secrets.token_hex(8)}"
    async with connection(open_folder) as (recorder, connected):
        job = Job(CONNECT_AND_SLEEP.encode(), recorder, (*PLAIN_PYTHON, mark))
        running = asyncio.create_task(sandbox.run(job, limits, slot=0))
        await asyncio.wait_for(connected.wait(), 20)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert not running_with(mark)
    assert own_groups() == []


VALIDATOR = """
import asyncio, json, sys
from pathlib import Path
from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.sandbox import PLAIN_PYTHON, Job, Limits
from arena.sandbox.staging import StagedPython
from arena.sandbox.subprocess_backend import SubprocessSandbox

given = json.loads(sys.argv[1])
parts = ('interpreter', 'packages_folder', 'kit', 'support')
staged = StagedPython(**{part: Path(given[part]) for part in parts}, python_version='')
backend = BubblewrapSandbox(staged, Path(given['bwrap'])) if given['bwrap'] else SubprocessSandbox(staged)
job = Job(given['source'].encode(), Path(given['recorder']), (*PLAIN_PYTHON, given['mark']))
if given['probe']:
    print(json.dumps([(c.name, c.ok, c.detail) for c in asyncio.run(backend.probe()).checks]))
else:
    print(asyncio.run(backend.run(job, Limits(**given['limits']), slot=0)))
"""


def validator_arguments(
    staged: StagedPython, bwrap: Path | None, recorder: Path, limits: Limits, **more: object
) -> str:
    parts = {
        part: str(getattr(staged, part)) for part in ("interpreter", "packages_folder", "kit", "support")
    }
    given = {
        **parts,
        "bwrap": str(bwrap or ""),
        "recorder": str(recorder),
        "limits": dataclasses.asdict(limits),
    }
    return json.dumps({**given, "source": "", "mark": "", "probe": False, **more})


@pytest.mark.parametrize("contained", [True, False])
async def test_a_killed_validator_takes_its_agents_along(
    staged: StagedPython, bwrap: Path, limits: Limits, open_folder: Path, contained: bool
) -> None:
    mark = f"orphan-{secrets.token_hex(8)}"
    async with connection(open_folder) as (recorder, connected):
        arguments = validator_arguments(
            staged, bwrap if contained else None, recorder, limits, source=CONNECT_AND_SLEEP, mark=mark
        )
        validator = await asyncio.create_subprocess_exec(sys.executable, "-c", VALIDATOR, arguments)
        await asyncio.wait_for(connected.wait(), 30)
        assert running_with(mark)
        os.kill(validator.pid, signal.SIGKILL)
        await asyncio.wait_for(validator.wait(), 10)
    await asyncio.to_thread(wait_until_gone, mark, 10.0)
    hierarchies = Hierarchies.of_this_host()
    await asyncio.to_thread(sweep_stale, hierarchies)
    groups = [mount / FOLDER for mount in hierarchies.folders.values()]
    assert not [left for group in groups for left in group.glob(f"*-{validator.pid}-*")]


def wait_until_gone(mark: str, deadline_s: float) -> None:
    """The kernel ends the chain warden, bubblewrap, agent on its own time, and tells nobody."""
    deadline = time.monotonic() + deadline_s
    while running_with(mark):
        assert time.monotonic() < deadline, f"processes with {mark} still run"
        time.sleep(0.01)


async def test_the_probe_passes_where_the_sandbox_holds(sandbox: Sandbox) -> None:
    probe = await sandbox.probe()
    assert [check for check in probe.checks if not check.ok] == []
    assert probe.ok
    assert len(probe.checks) == len(CHECKS) + 1


async def test_the_probe_bites_where_there_is_no_sandbox(staged: StagedPython) -> None:
    probe = await SubprocessSandbox(staged).probe()
    assert not probe.ok
    breached = {check.name for check in probe.checks if not check.ok}
    assert breached >= {"files", "host_processes", "loopback", "sockets", "kernel", "writes"}
    assert breached >= {f"hides /proc/{name}" for name in CONSTANTS}


async def test_the_probe_fails_where_the_sandbox_does_not_start(
    staged: StagedPython, bwrap: Path, open_folder: Path
) -> None:
    probe = await BubblewrapSandbox(dataclasses.replace(staged, kit=open_folder / "gone"), bwrap).probe()
    assert not probe.ok
    assert "gone" in probe.checks[0].detail


async def test_without_a_sandbox_foreign_code_is_refused_unless_told_otherwise(
    staged: StagedPython, open_folder: Path, capsys: pytest.CaptureFixture[str], bwrap: Path
) -> None:
    damaged = dataclasses.replace(staged, kit=open_folder / "gone")
    with pytest.raises(SandboxUnavailable, match="--unsafe-no-sandbox"):
        await choose(damaged)
    assert (await choose(damaged, unsafe=True)).name == "subprocess (unsafe)"
    assert "WITHOUT A SANDBOX" in capsys.readouterr().err


async def test_a_sandbox_that_holds_is_chosen(staged: StagedPython, bwrap: Path) -> None:
    assert (await choose(staged, unsafe=True)).name == "bubblewrap"


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run without root already")
def test_the_probe_passes_for_an_ordinary_user(
    staged: StagedPython, bwrap: Path, recorder: Path, limits: Limits
) -> None:
    import packaging

    folders = (Path(__file__).parents[3], Path(packaging.__file__).parents[1])
    readable = all(
        part.stat().st_mode & 0o005 == 0o005 for folder in folders for part in (folder, *folder.parents)
    )
    if not readable:
        pytest.skip("the checkout cannot be read by another user")
    arguments = validator_arguments(staged, bwrap, recorder, limits, probe=True)
    start = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n" + VALIDATOR
    done = subprocess.run(
        [str(staged.python), "-B", "-c", start, arguments],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        env={"LD_LIBRARY_PATH": str(staged.libraries), "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [check for check in json.loads(done.stdout) if not check[1]] == []


async def test_a_source_that_does_not_compile_is_the_agents_fault(
    either: Sandbox, job: MakeJob, limits: Limits
) -> None:
    ended = await either.run(job("def ("), limits, slot=0)
    assert (ended.reason, ended.return_code) == ("exit", 1)
    assert "SyntaxError" in ended.stderr


async def test_a_script_runs_as_main_with_its_arguments(
    either: Sandbox, recorder: Path, limits: Limits
) -> None:
    source = """
import pickle, sys
class Local: pass
assert (exit, quit)
assert isinstance(pickle.loads(pickle.dumps(Local())), Local)
print(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.flags.isolated, sys.flags.dont_write_bytecode)
"""
    ended = await either.run(Job(source.encode(), recorder, (*PLAIN_PYTHON, "a", "b")), limits, slot=0)
    assert ended.stdout == "__main__ True ['a', 'b'] 1 1\n", ended.stderr


async def test_another_program_can_be_the_command(either: Sandbox, recorder: Path, limits: Limits) -> None:
    command = (PYTHON, "-I", "-c", "import os; print(len(os.listdir('/proc/self/fd')))")
    ended = await either.run(Job(b"", recorder, command), limits, slot=0)
    assert ended.stdout == "4\n", ended.stderr


async def test_a_launcher_that_is_gone_is_started_again(
    sandbox: Sandbox, staged: StagedPython, job: MakeJob, limits: Limits
) -> None:
    assert (await sandbox.run(job(""), limits, slot=0)).reason == "exit"
    requests = launcher_of(staged)._requests
    assert requests is not None
    requests.shutdown(socket.SHUT_RDWR)  # it ends then
    assert (await sandbox.run(job("print(1)"), limits, slot=0)).stdout == "1\n"


async def test_jobs_of_several_slots_run_side_by_side(sandbox: Sandbox, job: MakeJob, limits: Limits) -> None:
    ended = await asyncio.gather(
        *(sandbox.run(job(f"print({slot})"), limits, slot=slot) for slot in range(100, 112))
    )
    assert [each.stdout for each in ended] == [f"{slot}\n" for slot in range(100, 112)]
    assert {each.leftovers for each in ended} == {0}
