"""A FastAPI application served inside this process, beside everything else it does.

Whoever connects and then says nothing, or says it a byte at a time, is cut off, so that no one can use up the
connections that there are by holding them. How fast a body comes, and how long an answer may take, is the
application's own concern.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

_START_DEADLINE_S = 15.0
_STOP_DEADLINE_S = 10.0
HEADER_DEADLINE_S = 10.0
"""The longest from a connection, or a request's first byte, to the end of its headers."""
MOST_CONNECTIONS = 512
_HEADER_BYTES = 16 << 10


class PortTaken(OSError):
    """The address to listen on cannot be had."""


class _Server(uvicorn.Server):
    """Leaves the process's signals to those who own them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class _Impatient(H11Protocol):
    """Closes a connection on which a request's headers are not complete in time."""

    header_deadline_s = HEADER_DEADLINE_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.header_deadline_s, transport.close)

    def data_received(self, data: bytes) -> None:
        """Take what came. Between requests it is uvicorn's own time limit that counts."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.header_deadline_s, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up."""
        self._forget()
        super().connection_lost(exc)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@contextlib.asynccontextmanager
async def serving(
    app: FastAPI,
    host: str,
    port: int,
    *,
    header_deadline_s: float = HEADER_DEADLINE_S,
    most_connections: int = MOST_CONNECTIONS,
) -> AsyncIterator[str]:
    """Serve `app` while the context is open; yields its base URL. Port 0 takes a free one.

    Beyond `most_connections` a request is answered with 503 at once.

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
    # Its own class, because uvicorn makes the protocols itself.
    protocol = type("_Protocol", (_Impatient,), {"header_deadline_s": header_deadline_s})
    config = uvicorn.Config(
        app,
        http=protocol,
        log_level="warning",
        lifespan="off",
        limit_concurrency=most_connections,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
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
