"""ETags: whoever has an answer already is told so, instead of being sent it again.

The tag is a hash of the answer's bytes, so that it is the same on every process. Answers to signed requests
are for one hotkey alone; they get none, and are not to be stored.
"""

from __future__ import annotations

import hashlib

import bittensor as bt
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_THE_BODY = ("content-type", "content-length")


class Tagged:
    """Gives the answers to public GETs an ETag, and answers 304 to whoever names it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        signed = bt.http_auth.HEADER_SIGNATURE in asked
        start: Message = {}
        body = bytearray()

        async def collecting(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            headers = MutableHeaders(scope=start)
            headers["X-Content-Type-Options"] = "nosniff"
            if start["status"] != 200 or signed:
                headers["Cache-Control"] = "no-store"
            else:
                headers["Cache-Control"] = "no-cache"  # keep it, but ask whether it still holds
                headers["ETag"] = tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                if names(asked.get("If-None-Match", ""), tag):
                    start["status"] = 304
                    for name in _OF_THE_BODY:
                        del headers[name]
                    body.clear()
            await send(start)
            await send({"type": "http.response.body", "body": bytes(body)})

        await self._app(scope, receive, collecting)


def names(if_none_match: str, tag: str) -> bool:
    """Whether the header's value is met by the tag (RFC 9110, 13.1.2: by weak comparison)."""
    given = [value.strip().removeprefix("W/") for value in if_none_match.split(",")]
    return "*" in given or tag in given
