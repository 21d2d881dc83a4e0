"""Asking an address that a stranger chose: nothing it does gets further than its own turn."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from neurons.chain_types import Endpoint
from neurons.fetching import FetchFailed, fetch, reachable

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def speaking(speak: Speak) -> AsyncIterator[Endpoint]:
    """A server that does what it is told with each connection."""
    closed = asyncio.Event()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            closed.set()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])


def saying(head: str, body: bytes = b"") -> Speak:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return speak


async def _fetch(endpoint: Endpoint, *, most_bytes: int = 1000, deadline_s: float = 10.0) -> bytes:
    fetched = await fetch(endpoint, "/v1/agent", most_bytes=most_bytes, deadline_s=deadline_s, local=True)
    return fetched.body


async def refused(speak: Speak, code: str, **bounds: float) -> str:
    async with speaking(speak) as endpoint:
        with pytest.raises(FetchFailed) as failed:
            await _fetch(endpoint, **bounds)  # type: ignore[arg-type]
    assert failed.value.code == code
    return str(failed.value)


async def test_what_is_within_bounds_is_fetched() -> None:
    async with speaking(saying("HTTP/1.1 200 OK\nContent-Length: 5\nX-Agent-Name: a", b"hello")) as endpoint:
        fetched = await fetch(endpoint, "/", most_bytes=5, deadline_s=10, local=True)
    assert (fetched.body, fetched.headers["x-agent-name"]) == (b"hello", "a")


async def test_a_node_that_never_ends_is_cut_off_at_the_byte() -> None:
    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    await refused(endless, "too_large")


async def test_a_gigabyte_announced_costs_nothing() -> None:
    await refused(saying("HTTP/1.1 200 OK\nContent-Length: 1073741824", b"x" * 2000), "too_large")


async def test_a_small_answer_that_unpacks_into_a_large_one_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    head = f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(bomb)}"
    await refused(saying(head, bomb), "garbled", most_bytes=1_000_000)


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_a_node_that_hangs_ends_with_its_deadline(begun: bytes) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await reader.read()

    await refused(hang, "too_slow", deadline_s=0.2)


async def test_a_redirect_is_not_followed() -> None:
    await refused(
        saying("HTTP/1.1 302 Found\nLocation: http://169.254.169.254/\nContent-Length: 0"), "redirected"
    )


async def test_an_error_is_quoted_no_further_than_it_is_of_use() -> None:
    said = await refused(
        saying("HTTP/1.1 403 Forbidden\nContent-Length: 900000", b"no permit" + b"x" * 9000), "refused"
    )
    assert "no permit" in said
    assert len(said) < 400


@pytest.mark.parametrize("garbage", ["SSH-2.0-OpenSSH", "HTTP/1.1 200 OK\nContent-Length: minus"])
async def test_what_does_not_speak_http_is_unreachable(garbage: str) -> None:
    await refused(saying(garbage), "unreachable")


async def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(FetchFailed) as failed:
        await _fetch(Endpoint("127.0.0.1", 9))
    assert failed.value.code == "unreachable"


INSIDE = (
    *("127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "localhost", "metadata.internal", ""),
)


@pytest.mark.parametrize("ip", INSIDE)
async def test_no_request_goes_to_what_is_not_public(ip: str) -> None:
    assert not reachable(Endpoint(ip, 80), local=False)
    with pytest.raises(FetchFailed) as failed:
        await fetch(Endpoint(ip, 80), "/", most_bytes=1, deadline_s=5, local=False)
    assert failed.value.code == "bad_address"


@pytest.mark.parametrize("ip", ["8.8.8.8", "2606:4700::1111"])
def test_public_addresses_may_be_asked(ip: str) -> None:
    assert reachable(Endpoint(ip, 80), local=False)


@pytest.mark.parametrize("ip", ["10.0.0.1", "169.254.169.254", "8.8.8.8"])
def test_on_a_network_of_this_machine_only_this_machine_is_asked(ip: str) -> None:
    assert not reachable(Endpoint(ip, 80), local=True)
    assert reachable(Endpoint("127.0.0.1", 80), local=True)
