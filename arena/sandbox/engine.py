"""The few requests to a Docker Engine that a sandbox makes, over its Unix socket.

The one thing to know: no `docker` command is run. A command line that is killed leaves its container running,
and one that is not read blocks the container's removal; a request does neither. Every request has a deadline.
API 1.41 is that of Docker 20.10, the oldest one used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

API = "http://docker/v1.41"
DEADLINE_S = 30.0
"""For one request; starting a container takes a third of a second on an idle machine."""
IMPORT_DEADLINE_S = 300.0
_HEADER_BYTES = 8
_CHUNK = 1 << 20


class EngineError(RuntimeError):
    """The engine refused, or did not answer. `status` is 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def engine_socket() -> Path | None:
    """The socket of this host's engine: by DOCKER_HOST, or where it usually lies; None without one."""
    named = os.environ.get("DOCKER_HOST", "")
    if named:
        return Path(named.removeprefix("unix://")) if named.startswith("unix://") else None
    usual = [Path("/var/run/docker.sock")]
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        usual.insert(0, Path(folder) / "docker.sock")
    return next((path for path in usual if path.is_socket()), None)


class Engine:
    """A connection to the engine, for one event loop. Use it as a context manager."""

    def __init__(self, socket: Path) -> None:
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket), verify=False, retries=0),
            timeout=DEADLINE_S,
            trust_env=False,
        )

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        """One request; the JSON object it gives, {} without one. Raises EngineError."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                answer = await self._client.request(method, API + path, json=body, params=query)
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            raise EngineError(f"no answer to {method} {path}: {type(error).__name__} {error}") from error
        if answer.is_error:
            raise EngineError(f"{method} {path}: {_message(answer)}", answer.status_code)
        found = answer.json() if answer.content else {}
        return found if isinstance(found, dict) else {"items": found}

    @contextlib.asynccontextmanager
    async def output(
        self, container: str, take: Callable[[int, bytes], None]
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Attach to a container that is not started yet, and give `take` each piece: stream (0 stdout, 1
        stderr) and bytes. The task ends when the container's streams do. Leaving lets go of them.
        """
        request = self._client.build_request(
            "POST",
            f"{API}/containers/{container}/attach",
            params={"stream": "1", "stdout": "1", "stderr": "1"},
            timeout=httpx.Timeout(DEADLINE_S, read=None),  # silence is no fault; the caller has the deadline
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                attached = await self._client.send(request, stream=True)
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            raise EngineError(f"no output of {container}: {type(error).__name__} {error}") from error
        task = asyncio.create_task(_demultiplex(attached, take))
        try:
            if attached.is_error:
                raise EngineError(f"no output of {container}", attached.status_code)
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
            with contextlib.suppress(httpx.HTTPError, OSError, RuntimeError):
                await attached.aclose()


async def _demultiplex(attached: httpx.Response, take: Callable[[int, bytes], None]) -> None:
    """Both streams come in one, in frames: stream number, three zeros, length as 4 bytes big-endian."""
    waiting, stream, left = b"", 0, 0
    with contextlib.suppress(httpx.HTTPError, OSError):  # it is cut when the container is removed
        async for chunk in attached.aiter_raw():
            waiting += chunk
            while waiting:
                if left:
                    piece, waiting = waiting[:left], waiting[left:]
                    left -= len(piece)
                    take(stream, piece)
                elif len(waiting) >= _HEADER_BYTES:
                    stream, left = int(waiting[0] == 2), int.from_bytes(waiting[4:_HEADER_BYTES])
                    waiting = waiting[_HEADER_BYTES:]
                else:
                    break


def blocking(socket: Path) -> httpx.Client:
    """A client for work outside the event loop, such as importing an image."""
    transport = httpx.HTTPTransport(uds=str(socket), verify=False, retries=0)
    return httpx.Client(transport=transport, timeout=IMPORT_DEADLINE_S, trust_env=False, base_url=API)


def import_image(client: httpx.Client, tar: Path, name: str) -> str:
    """Import a root file system under `name` (repository:tag); the image's content address.

    Raises EngineError.
    """
    repository, _, tag = name.rpartition(":")
    try:
        answer = client.post(
            "/images/create",
            params={"fromSrc": "-", "repo": repository, "tag": tag},
            content=_pieces(tar),
            headers={"Content-Type": "application/x-tar"},
        )
    except httpx.HTTPError as error:
        raise EngineError(f"the image could not be imported: {error}") from error
    if answer.is_error:
        raise EngineError(f"the image could not be imported: {_message(answer)}", answer.status_code)
    for line in answer.text.splitlines():
        status = json.loads(line).get("status", "")
        if str(status).startswith("sha256:"):
            return str(status)
    raise EngineError(f"the image could not be imported: {answer.text[-300:]}")


def _pieces(tar: Path) -> Iterator[bytes]:
    with tar.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
