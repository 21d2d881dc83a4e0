"""How a process that runs until it is told to stop, stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)

TRY_LATER = 75
"""Exit status for "nothing is wrong with what you asked for; start me again": sysexits.h's EX_TEMPFAIL."""
GRACE_S = 9.5
"""Who stops containers waits ten seconds, and then kills."""


async def until_stopped(work: Coroutine[Any, Any, None], *, grace_s: float = GRACE_S) -> None:
    """Work until SIGINT or SIGTERM; then put everything away and return. Further signals are not heard.

    What does not let itself be put away within `grace_s` is left as a crash would leave it, and the process
    ends with status 1: nothing here depends on a clean end.
    """
    task = asyncio.ensure_future(work)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            task.cancel()
            loop.call_later(grace_s, give_up)

    def give_up() -> None:
        # The work may be over, and the loop held up by what a library left in it.
        if not task.done():
            _log.error("still busy %.1f s after being told to stop; ending as in a crash", grace_s)
        os._exit(int(not task.done()))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
