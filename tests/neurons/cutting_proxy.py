"""A WebSocket relay that cuts the client's connection when it submits an extrinsic."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed


class CuttingProxy:
    """Relays between clients and `upstream`.

    `cuts` is how many submissions are still to be cut off, after they were passed on or instead of it;
    `submissions` is how many were made.
    """

    def __init__(self, upstream: str, *, passes_on: bool) -> None:
        self._upstream = upstream
        self._passes_on = passes_on
        self._server: Server
        self.cuts = 0
        self.submissions = 0

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"ws://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await serve(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _relay(self, client: ServerConnection) -> None:
        async with connect(self._upstream, proxy=None) as node:
            back = asyncio.create_task(self._back(node, client))
            try:
                async for frame in client:
                    submission = "author_submitAndWatchExtrinsic" in str(frame)
                    self.submissions += submission
                    cut = submission and self.cuts > 0
                    if self._passes_on or not cut:
                        await node.send(frame)
                    if cut:
                        self.cuts -= 1
                        client.transport.abort()
            except ConnectionClosed:
                pass
            finally:
                back.cancel()

    async def _back(self, node: ClientConnection, client: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for frame in node:
                await client.send(frame)
