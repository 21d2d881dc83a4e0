"""How a process that runs until it is told to stop, stops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Work until SIGINT or SIGTERM; then put everything away and return. Further signals are not heard."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.Event()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
