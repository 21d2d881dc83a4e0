"""Runs a job as a plain subprocess: no sandbox at all, for tests and for agents you wrote yourself.

The one thing to know: time, output, and the size of each process are bounded and everything is torn down, but
the agent has this account's files, network and keys. `choose` hands it out only when told to.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from arena.sandbox.ending import setup_error
from arena.sandbox.execution import supervise
from arena.sandbox.launching import READY, Launch
from arena.sandbox.limits import ControlGroup
from arena.sandbox.probe import Probe, probe_sandbox
from arena.sandbox.sandbox import AGENT, PYTHON, SCREENING, Exit, Job, Limits
from arena.sandbox.staging import StagedPython


class SubprocessSandbox:
    """`Sandbox` in name only; its probe fails, and says at what."""

    name = "subprocess (unsafe)"

    def __init__(self, staged: StagedPython) -> None:
        self._staged = staged
        self._taken: set[int] = set()

    async def run(self, job: Job, limits: Limits, *, slot: int, stop: asyncio.Event | None = None) -> Exit:
        """See `Sandbox.run`. Limits bind one process each, not their sum; the work folder has none."""
        if slot in self._taken:
            raise ValueError(f"slot {slot} is running a job: use another")
        self._taken.add(slot)
        folder = Path(tempfile.mkdtemp(prefix="arena-work-"))
        try:
            return await self._run_in(folder, job, limits, stop)
        except OSError as error:
            return setup_error(f"{type(error).__name__}: {error}")
        finally:
            self._taken.discard(slot)
            await asyncio.to_thread(_remove, folder)

    @property
    def quarantined(self) -> Mapping[int, str]:
        """See `Sandbox.quarantined`. Nothing is looked for here, so nothing is found."""
        return {}

    async def probe(self) -> Probe:
        """See `Sandbox.probe`."""
        return await probe_sandbox(self)

    async def _run_in(self, folder: Path, job: Job, limits: Limits, stop: asyncio.Event | None) -> Exit:
        agent, work = folder / "agent.py", folder / "work"
        agent.write_bytes(job.source)
        agent.chmod(0o444)
        work.mkdir()
        staged = self._staged
        chosen = job.command or (PYTHON, "-I", "-B", str(staged.kit / "agent_kit" / "launch.py"), AGENT)
        screening = staged.support / "screening" / "arena" / "screening_child.py"
        names = {PYTHON: str(staged.python), AGENT: str(agent), SCREENING: str(screening)}
        environment = {
            **job.environment,
            "PATH": os.defpath,
            "HOME": str(work),
            "TMPDIR": str(work),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "LD_LIBRARY_PATH": str(staged.libraries),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ARENA_SOCKET": "" if job.socket is None else str(job.socket.resolve()),
            "ARENA_PACKAGES": str(staged.packages_folder),
            "ARENA_KIT": str(staged.kit / "agent_kit"),
        }
        launch = Launch(
            command=[
                *(str(staged.python), "-I", "-S", "-B", str(staged.support / "start.py"), str(READY), "0"),
                *(names.get(word, word) for word in chosen),
            ],
            environment=environment,
            folder=work,
        )
        no_group = ControlGroup(unified=False, folders={})
        return await supervise(staged, launch, limits, no_group, stop)


def _remove(folder: Path) -> None:
    # Not shutil.rmtree: an agent can nest folders deeper than Python recurses, or than a path may be long.
    subprocess.run(["rm", "-rf", "--", str(folder)], check=False, capture_output=True, timeout=60)
