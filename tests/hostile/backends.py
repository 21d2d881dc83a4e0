"""The sandboxes that the suite knows, by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.installation import ensure_bubblewrap
from arena.sandbox.sandbox import Sandbox
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox

BACKENDS = ("bubblewrap", "subprocess")
CONTAINED = frozenset({"bubblewrap"})
"""Those that must hold against everything."""


@asynccontextmanager
async def backend(name: str) -> AsyncIterator[Sandbox]:
    """The sandbox of that name. Raises SandboxUnavailable where it cannot be had."""
    staged = await asyncio.to_thread(stage)
    if name == "subprocess":
        yield SubprocessSandbox(staged)
    else:
        yield BubblewrapSandbox(staged, await ensure_bubblewrap())
