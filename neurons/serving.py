"""A FastAPI application served inside this process, beside everything else it does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from fastapi import FastAPI

_START_DEADLINE_S = 15.0
_STOP_DEADLINE_S = 10.0


class PortTaken(OSError):
    """The address to listen on cannot be had."""


class _Server(uvicorn.Server):
    """Leaves the process's signals to those who own them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@contextlib.asynccontextmanager
async def serving(app: FastAPI, host: str, port: int) -> AsyncIterator[str]:
    """Serve `app` while the context is open; yields its base URL. Port 0 takes a free one.

    Raises PortTaken, and TimeoutError when the server does not come up.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --api.port"
        ) from None
    server = _Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(_START_DEADLINE_S):
            while not server.started:
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_DEADLINE_S):
                await task
        listener.close()
