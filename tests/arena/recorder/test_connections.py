"""How the provider is reached: over checked TLS, through a proxy where there is one, on kept connections."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from arena.recorder.upstream import Asking, ProviderFault, Upstream

ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "yes"}}]}).encode()
PAYLOAD = {"model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 5, "stream": False}


class Endpoint:
    """A provider, or a proxy before one, that says yes. `heads` are the requests it got."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self.hangs_up = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, OSError):
                break
            fields = {
                name.lower(): value for name, _, value in (x.partition(": ") for x in head.split("\r\n"))
            }
            await reader.readexactly(int(fields["content-length"]))
            self.heads.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER)
            if self.hangs_up:
                break
        writer.close()

    @asynccontextmanager
    async def at_port(self, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        async with server:
            yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def asked(url: str, verify: ssl.SSLContext | bool = True) -> AsyncIterator[Upstream]:
    upstream = Upstream(url, None, ("m",), timeout_s=10, retries=0, verify=verify)
    try:
        yield upstream
    finally:
        await upstream.aclose()


async def test_a_connection_serves_one_call_after_another() -> None:
    endpoint = Endpoint()
    async with endpoint.at_port() as port, asked(f"http://127.0.0.1:{port}/v1") as upstream:
        for _ in range(3):
            assert (await upstream.complete(PAYLOAD, Asking())).message["content"] == "yes"
    assert (endpoint.connections, len(endpoint.heads)) == (1, 3)
    assert endpoint.heads[0].startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{port}\r\n" in endpoint.heads[0]


async def test_a_connection_that_the_provider_closed_is_not_used_again() -> None:
    endpoint = Endpoint()
    endpoint.hangs_up = True
    async with endpoint.at_port() as port, asked(f"http://127.0.0.1:{port}/v1") as upstream:
        for _ in range(3):
            await upstream.complete(PAYLOAD, Asking())
            async with asyncio.timeout(10):  # nothing tells when the end of it is seen here
                while any(not kept.has_expired() for kept in upstream._pool.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0)
    assert endpoint.connections == 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody vouches for, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=arena", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"),
            *("-keyout", str(file), "-out", str(file.with_suffix(".crt"))),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    file.write_bytes(file.read_bytes() + file.with_suffix(".crt").read_bytes())
    return file


async def test_a_provider_is_spoken_to_over_tls_only_when_its_certificate_is_good(certificate: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate.with_suffix(".crt")))
    endpoint = Endpoint()
    async with endpoint.at_port(serving) as port:
        url = f"https://127.0.0.1:{port}/v1"
        async with asked(url, trusting) as upstream:
            for _ in range(2):
                assert (await upstream.complete(PAYLOAD, Asking())).message["content"] == "yes"
        async with asked(url) as upstream:
            with pytest.raises(ProviderFault, match="connection failed"):
                await upstream.complete(PAYLOAD, Asking())
    assert len(endpoint.heads) == 2


async def test_the_proxy_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Endpoint()
    async with proxy.at_port() as port:
        monkeypatch.setenv("http_proxy", f"http://someone:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "near.example")
        async with asked("http://far.example/v1") as upstream:
            await upstream.complete(PAYLOAD, Asking())
        async with asked("http://near.example/v1") as upstream:
            with pytest.raises(ProviderFault, match="connection failed"):
                await upstream.complete(PAYLOAD, Asking())
    assert [head.split("\r\n")[0] for head in proxy.heads] == [
        "POST http://far.example/v1/chat/completions HTTP/1.1"
    ]
    assert "proxy-authorization: basic " in proxy.heads[0].lower()
