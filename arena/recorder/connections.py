"""Connections to a provider, kept open between calls: httpcore's pool over asyncio's own streams.

The one thing to know: httpcore is the engine of httpx. The provider is asked through it without httpx around
it, and on streams without AnyIO under it, because the two took longer than all that the recorder itself does
with a call. Reading and writing have no deadlines of their own here: whoever asks bounds the whole exchange.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

KEPT_S = 5.0
"""How long a connection may lie idle before it is closed."""
_BUFFER = 1 << 16
_EYEBALLS_S = 0.25
"""After how long the next address of a host is tried beside the first (RFC 8305, 5)."""


def pool(url: httpx.URL, verify: ssl.SSLContext | bool, connections: int) -> httpcore.AsyncConnectionPool:
    """At most so many connections to the host of `url`, through the proxy that the environment names."""
    context = httpx.create_ssl_context(verify) if url.scheme == "https" else None
    proxy = _proxy_for(url)
    return httpcore.AsyncConnectionPool(
        ssl_context=context,
        proxy=None if proxy is None else httpcore.Proxy(str(proxy.url), auth=proxy.raw_auth),
        max_connections=connections,
        max_keepalive_connections=connections,
        keepalive_expiry=KEPT_S,
        network_backend=_Streams(),
    )


def _proxy_for(url: httpx.URL) -> httpx.Proxy | None:
    """By HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""
    found = urllib.request.getproxies()
    address = found.get(url.scheme) or found.get("all")
    if address is None or urllib.request.proxy_bypass(url.netloc.decode("ascii")):
        return None
    return httpx.Proxy(address if "://" in address else f"http://{address}")


class _Streams(httpcore.AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                opened = await asyncio.open_connection(
                    host, port, limit=_BUFFER, happy_eyeballs_delay=_EYEBALLS_S
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(*opened)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, under: _Stream | None = None
    ) -> None:
        """`under` is what carries it: kept, because a writer that is forgotten closes its connection."""
        self._reader, self._writer, self._under = reader, writer, under

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            return await self._reader.read(max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            self._writer.write(buffer)
            await self._writer.drain()
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_BUFFER)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport = await loop.start_tls(
                self._writer.transport,
                protocol,
                ssl_context,
                server_hostname=server_hostname,
                ssl_handshake_timeout=timeout,
            )
        except (OSError, ssl.SSLError) as error:
            raise httpcore.ConnectError(str(error)) from error
        assert transport is not None
        protocol.connection_made(transport)  # the loop leaves that to whoever changes protocols
        return _Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), self)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # so asked of an idle connection: whether the provider has closed it
            return self._reader.at_eof() or self._writer.is_closing()
        return self._writer.get_extra_info(info)
