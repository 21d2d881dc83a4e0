from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from fastapi import FastAPI

from neurons.serving import PortTaken, serving


def _app() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        return "here"

    return app


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_an_application_answers_at_its_base_url_until_the_context_ends(host: str) -> None:
    try:
        async with serving(_app(), host, 0) as url, httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/")).json() == "here"
    except PortTaken as error:
        pytest.skip(f"no such address on this machine: {error}")
    async with httpx.AsyncClient(base_url=url) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/")


async def test_a_port_that_was_used_can_be_used_again_at_once() -> None:
    async with serving(_app(), "127.0.0.1", 0) as url, httpx.AsyncClient(base_url=url) as client:
        await client.get("/")
    port = int(url.rpartition(":")[2])
    async with serving(_app(), "127.0.0.1", port) as again, httpx.AsyncClient(base_url=again) as client:
        assert (await client.get("/")).json() == "here"


async def test_a_taken_port_is_said_with_the_flag_that_chooses_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{port}.*--api\.port"):
            async with serving(_app(), "127.0.0.1", port):
                pass


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7"])
async def test_an_address_that_is_not_ours_is_said(host: str) -> None:
    with pytest.raises(PortTaken, match=host):
        async with serving(_app(), host, 0):
            pass


async def test_what_breaks_inside_the_context_escapes_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with serving(_app(), "127.0.0.1", 0):
            raise KeyError("mine")


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"], ids=["nothing", "half"])
async def test_who_does_not_say_what_it_wants_in_time_is_cut_off_and_others_are_served(said: bytes) -> None:
    async with serving(_app(), "127.0.0.1", 0, header_deadline_s=0.05) as url:
        reader, writer = await _connected(url)
        writer.write(said)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/")).json() == "here"


async def test_the_headers_of_a_second_request_have_a_deadline_too() -> None:
    async with serving(_app(), "127.0.0.1", 0, header_deadline_s=0.05) as url:
        reader, writer = await _connected(url)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b'"here"'), 30)
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


async def test_an_answer_may_take_longer_than_the_headers() -> None:
    begun, late = asyncio.Event(), asyncio.Event()
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        begun.set()
        await late.wait()
        return "here"

    async with (
        serving(app, "127.0.0.1", 0, header_deadline_s=0.05) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as client,
    ):
        asked = asyncio.create_task(client.get("/"))
        await asyncio.wait_for(begun.wait(), 30)
        reader, writer = await _connected(url)
        await asyncio.wait_for(reader.read(), 30)  # the deadline of this one is later than the other's
        writer.close()
        late.set()
        assert (await asked).json() == "here"


async def test_beyond_the_most_connections_a_request_is_refused_at_once() -> None:
    async with serving(_app(), "127.0.0.1", 0, most_connections=2) as url:
        _, writer = await _connected(url)
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/")).status_code == 503
        writer.close()


async def _connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))
