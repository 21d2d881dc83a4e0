"""What a hotkey signs: requests (`btauth/1`) for httpx clients, and texts.

The signature covers method, path with query, body, time, sender and receiver, so it cannot be used for
another request, at another host, or later.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bittensor
import httpx


class HotkeyAuth(httpx.Auth):
    """Signs each request with the wallet's hotkey, for the server whose hotkey is `receiver` (SS58).

    Works with sync and async clients. A request that httpx sends again (a redirect) is signed anew. Raises
    ValueError when the key is not sr25519: servers here accept no other.
    """

    requires_request_body = True

    def __init__(self, wallet: Any, receiver: str) -> None:
        signer = bittensor.resolve_signer(wallet, role="hotkey")
        if signer.crypto_type != 1:
            raise ValueError(
                "requests must be signed with an sr25519 hotkey; this wallet's is of another kind"
            )
        self._signer = signer
        self._receiver = receiver

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the headers of one request."""
        request.headers.update(
            bittensor.http_auth.sign(
                self._signer,
                method=request.method,
                path=request.url.raw_path.decode("ascii"),
                body=request.content,
                receiver_ss58=self._receiver,
            )
        )
        yield request


def signature(wallet: Any, text: bytes) -> str:
    """The hotkey's signature over `text`, in hex."""
    return bytes(bittensor.resolve_signer(wallet, role="hotkey").sign(text)).hex()
