"""The sandboxes that the suite knows, by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arena.sandbox.bubblewrap import bubblewrap_sandbox
from arena.sandbox.docker import docker_sandbox
from arena.sandbox.sandbox import Sandbox
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox

BACKENDS = ("bubblewrap", "docker", "subprocess")
CONTAINED = frozenset({"bubblewrap", "docker"})
"""Those that must hold against everything; the other one contains nothing."""


@asynccontextmanager
async def backend(name: str) -> AsyncIterator[Sandbox]:
    """The sandbox of that name. Raises SandboxUnavailable where it cannot be had."""
    staged = await asyncio.to_thread(stage)
    if name == "bubblewrap":
        yield await bubblewrap_sandbox(staged)
    elif name == "docker":
        yield await docker_sandbox(staged)
    else:
        yield SubprocessSandbox(staged)
