"""HTTP/1.1 on a Unix socket, for clients that may be hostile.

Small on purpose: one request at a time per connection, a cap on connections, header and body size, and a
deadline on everything that waits for the other side. Many servers live in one event loop; none touches
signals.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11

MAX_HEADER_BYTES = 16 * 1024
CONNECTION = "connection of a recorder"
"""Name of the task that serves a connection."""
MAX_SOCKET_PATH = 100
"""Bytes. The kernel's limit is 108, and a sandbox may show the socket under a slightly longer name."""


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request. `path` is as sent, without the `query`."""

    method: str
    path: str
    body: bytes
    query: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, sent as it is. With `stream`, its pieces are the body, sent as they come."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None


def json_response(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as a JSON answer."""
    return Response(status, json.dumps(value, ensure_ascii=False).encode(), headers=headers or {})


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What a client may take."""

    connections: int
    body_bytes: int
    request_timeout_s: float
    idle_timeout_s: float


class _BadRequest(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnixHttpServer:
    """Serves `app` on a Unix socket between `start` and `stop`.

    `refused` is told of requests not served, `failed` of a connection that we lost by our own failure.
    """

    def __init__(
        self,
        app: Callable[[Request], Awaitable[Response]],
        limits: WireLimits,
        refused: Callable[[str, str], None],
        failed: Callable[[str], None],
    ) -> None:
        self._app = app
        self._limits = limits
        self._refused = refused
        self._failed = failed
        self._stopping = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._path: Path | None = None

    async def start(self, path: Path) -> None:
        """Listen. Every uid may connect: the folder around the socket is what keeps others out.

        Raises ValueError when the path is too long for a socket, OSError when it cannot be bound.
        """
        if len(bytes(path)) > MAX_SOCKET_PATH:
            raise ValueError(f"socket path longer than {MAX_SOCKET_PATH} bytes: choose a shorter folder")
        self._server = await asyncio.start_unix_server(self._connected, path=path)
        self._path = path
        path.chmod(0o666)  # noqa: ASYNC240 - a system call that does not block

    def stop_listening(self) -> None:
        """Take no new connections."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close everything; requests still being served are cancelled."""
        self.stop_listening()
        self._stopping = True
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._limits.connections:
            self._refused("connection", f"more than {self._limits.connections} connections at once")
            writer.transport.abort()
            return
        peer = _Peer(reader, writer, self._limits)
        task = asyncio.create_task(self._connection(peer, writer), name=CONNECTION)
        self._connections.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None or (task.cancelled() and not self._stopping):
            said = "it was cancelled" if error is None else f"{type(error).__name__}: {str(error)[:200]}"
            self._failed(f"a connection was lost: {said}")

    async def _connection(self, peer: _Peer, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(peer)
            writer.close()
        except (TimeoutError, OSError, h11.ProtocolError):
            pass  # the client is slow, gone or speaks something else: nobody is left to tell
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _serve(self, peer: _Peer) -> None:
        while True:
            try:
                request = await peer.receive()
            except _BadRequest as error:
                self._refused("request", str(error))
                await peer.send(json_response(error.status, {"error": {"message": str(error)}}))
                return
            if request is None:
                return
            await peer.send(await self._app(request))
            if not peer.next_cycle():
                return


class _Peer:
    """One connection, as requests and responses."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: WireLimits
    ) -> None:
        self._reader, self._writer, self._limits = reader, writer, limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)

    async def receive(self) -> Request | None:
        """The next whole request; None when the client closed. Raises TimeoutError or _BadRequest."""
        if not self._http.trailing_data[0]:
            async with asyncio.timeout(self._limits.idle_timeout_s):
                await self._read()
        try:
            async with asyncio.timeout(self._limits.request_timeout_s):
                return await self._receive()
        except h11.RemoteProtocolError as error:
            raise _BadRequest(error.error_status_hint, f"not HTTP as we speak it: {error}") from None
        except TimeoutError:
            raise _BadRequest(408, "the request did not arrive in time") from None
        except (OSError, _BadRequest):
            raise
        except Exception as error:  # noqa: BLE001 - what a client makes the parser raise is the client's doing
            raise _BadRequest(400, f"not HTTP as we speak it: {type(error).__name__}") from None

    async def _receive(self) -> Request | None:
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        names = {name for name, _ in head.headers}
        if {b"content-length", b"transfer-encoding"} <= names:  # RFC 9112, 6.3: may be refused
            raise _BadRequest(400, "not HTTP as we speak it: two lengths of one body")
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > self._limits.body_bytes:
                raise _BadRequest(413, f"body larger than the {self._limits.body_bytes} bytes allowed")
        path, _, query = head.target.decode("ascii", "replace").partition("?")
        return Request(head.method.decode("ascii", "replace"), path, bytes(body), query)

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            await self._read()
        return event

    async def _read(self) -> None:
        self._http.receive_data(await self._reader.read(64 * 1024))

    async def send(self, response: Response) -> None:
        """Send a whole response. Raises TimeoutError when the client does not take it."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        length = {} if response.stream else {"content-length": str(len(response.body))}
        headers = {"content-type": response.content_type, **length, **response.headers}
        head = h11.Response(status_code=response.status, headers=list(headers.items()))
        if response.stream is None:
            await self._write(head, h11.Data(data=response.body), h11.EndOfMessage())
            return
        await self._write(head)
        async for piece in response.stream:
            await self._write(h11.Data(data=piece))
        await self._write(h11.EndOfMessage())

    async def _write(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(self._limits.request_timeout_s):
            await self._writer.drain()

    def next_cycle(self) -> bool:
        """Make ready for another request; False when the connection must close."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True
