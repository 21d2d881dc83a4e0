"""One bounded GET at an address that somebody else chose.

Endpoints in the metagraph are their hotkeys' choice. So a request goes to no address that is not public
(unless the whole network is on this machine), follows no redirect, asks no proxy, reads no more than it was
told to, unpacks nothing, and ends by its deadline, whatever the other side does.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import httpx

from neurons.chain_types import Endpoint

Code = Literal["bad_address", "unreachable", "too_slow", "too_large", "redirected", "refused", "garbled"]
_CONNECT_S = 5.0
_ERROR_BYTES = 4 << 10


class FetchFailed(Exception):
    """Nothing was fetched. `code` is stable; the message is for the one who answers there."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body, and the headers that came with it (names in lower case)."""

    body: bytes
    headers: Mapping[str, str]


def reachable(endpoint: Endpoint, *, local: bool) -> bool:
    """Whether a request may go there: to a public unicast address, or, where `local`, to this machine.

    An IPv6 address that stands for an IPv4 one is judged as that one.
    """
    try:
        address = ipaddress.ip_address(endpoint.ip)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    if local:
        return address.is_loopback
    return address.is_global and not address.is_multicast


async def fetch(
    endpoint: Endpoint,
    path: str,
    *,
    auth: httpx.Auth | None = None,
    most_bytes: int,
    deadline_s: float,
    local: bool,
) -> Fetched:
    """The body at `path`, of at most `most_bytes`, within `deadline_s` in all. Raises FetchFailed."""
    if not reachable(endpoint, local=local):
        raise FetchFailed(
            "bad_address", f"{endpoint.ip} is no public address: announce one that others can reach"
        )
    try:
        async with asyncio.timeout(deadline_s):
            return await _get(endpoint.url + path, auth, most_bytes)
    except TimeoutError:
        raise FetchFailed("too_slow", f"no whole answer came within {deadline_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
        said = str(error) or type(error).__name__
        raise FetchFailed("unreachable", f"{endpoint.url} does not answer: {said[:200]}") from error


async def _get(url: str, auth: httpx.Auth | None, most_bytes: int) -> Fetched:
    headers = {"Accept-Encoding": "identity", "User-Agent": "agent-arena"}
    timeout = httpx.Timeout(None, connect=_CONNECT_S)
    async with (
        httpx.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=timeout, auth=auth, headers=headers
        ) as client,
        client.stream("GET", url) as answer,
    ):
        if answer.is_redirect:
            raise FetchFailed("redirected", "it answers with a redirect, and none is followed")
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise FetchFailed("garbled", "it answers compressed, though it was asked not to")
        if not answer.is_success:
            said = (await _read(answer, _ERROR_BYTES, cut=True)).decode(errors="replace")
            raise FetchFailed("refused", f"it answers with status {answer.status_code}: {said[:300]}")
        body = await _read(answer, most_bytes, cut=False)
        return Fetched(body, {name.lower(): value for name, value in answer.headers.items()})


async def _read(answer: httpx.Response, most_bytes: int, *, cut: bool) -> bytes:
    body = bytearray()
    # Raw, because whoever unpacks an answer may get a thousand times what was sent.
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most_bytes:
            if cut:
                break
            raise FetchFailed("too_large", f"it answers with more than {most_bytes} bytes")
    return bytes(body[:most_bytes])
