"""The provider of the model, as the recorder sees it: any OpenAI-compatible endpoint.

The API key lives here and nowhere else: it is added to the request on its way out, and removed from whatever
the provider says in return. The one thing to know: every failure is sorted into one of two kinds. A
`ProviderFault` is not the agent's doing and is retried, at most `retries` times; a `RequestRejected` is the
agent's own bad request and is not.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from pydantic import SecretStr

from arena import strict_json
from arena.recorder.chat import ChatError, Reply, parse_reply

AGENTS_FAULT = frozenset({400, 413, 422})
"""Statuses by which a provider says that the request itself was bad."""
NOT_WORTH_RETRYING = frozenset({401, 402, 403, 404})
"""Our key, account or address is wrong; asking again will not help."""
MAX_PAUSE_S = 10.0


class ProviderFault(Exception):
    """The provider did not answer as it should. The message is fit for a log: it holds no key."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RequestRejected(Exception):
    """The provider says that the request is bad."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Upstream:
    """One provider, shared by all episodes of a process.

    `models` is the allowlist; its first entry is what "default" means. `timeout_s` bounds one attempt,
    `retries` the attempts after the first, `pause_s` (doubled every time) the wait between them. Close it
    with `aclose`, in the event loop that used it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr | None,
        models: tuple[str, ...],
        timeout_s: float = 60.0,
        retries: int = 2,
        *,
        pause_s: float = 0.5,
        max_response_bytes: int = 4 * 1024 * 1024,
        connections: int = 256,
    ) -> None:
        if not models:
            raise ValueError("an upstream needs at least one model: name it in the allowlist")
        if timeout_s <= 0 or retries < 0:
            raise ValueError("an upstream needs a timeout above zero and a count of retries, zero or more")
        self.models = models
        self.timeout_s = timeout_s
        self.retries = retries
        self._pause_s = pause_s
        self._max_response_bytes = max_response_bytes
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._api_key = api_key
        headers = {"authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0)),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def __repr__(self) -> str:
        return f"Upstream({self._url!r}, models={self.models!r})"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def resolve(self, model: str) -> str | None:
        """The name by which the provider knows `model`; None when it is not allowed."""
        if model == "default":
            return self.models[0]
        return model if model in self.models else None

    async def complete(self, payload: dict[str, Any], *, jitter: float, faults: list[ProviderFault]) -> Reply:
        """One chat completion. Each failed attempt is added to `faults` as it happens.

        `jitter` (0 to 1) spreads the retries of different episodes. Raises ProviderFault when the last
        attempt failed, RequestRejected when the provider blames the request.
        """
        while True:
            try:
                return await self._attempt(payload)
            except ProviderFault as fault:
                faults.append(fault)
                if len(faults) > self.retries or fault.status in NOT_WORTH_RETRYING:
                    raise
            pause = self._pause_s * 2 ** (len(faults) - 1) * (0.5 + jitter)
            await asyncio.sleep(min(pause, MAX_PAUSE_S))

    async def _attempt(self, payload: dict[str, Any]) -> Reply:
        try:
            async with asyncio.timeout(self.timeout_s):
                status, body = await self._post(payload)
        except (TimeoutError, httpx.TimeoutException):
            raise ProviderFault(f"no answer within {self.timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise ProviderFault(f"connection failed ({type(error).__name__})") from None
        if status in AGENTS_FAULT:
            raise RequestRejected(self._said(body), status)
        if status != 200:
            raise ProviderFault(f"status {status}: {self._said(body)}", status)
        try:
            return parse_reply(strict_json.loads(body, max_bytes=self._max_response_bytes))
        except (strict_json.StrictJsonError, ChatError) as error:
            raise ProviderFault(f"malformed answer: {error}", status) from None

    async def _post(self, payload: dict[str, Any]) -> tuple[int, bytes]:
        body = bytearray()
        async with self._client.stream("POST", self._url, json=payload) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._max_response_bytes:
                    raise ProviderFault(f"answer larger than {self._max_response_bytes} bytes", 200)
            return response.status_code, bytes(body)

    def _said(self, body: bytes) -> str:
        """The provider's own words on an error, short and without our key."""
        try:
            value = strict_json.loads(body, max_bytes=64 * 1024)
        except strict_json.StrictJsonError:
            return "no reason given"
        error = value.get("error") if isinstance(value, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        text = message if isinstance(message, str) else "no reason given"
        if self._api_key is not None:
            text = text.replace(self._api_key.get_secret_value(), "[key]")
        return text[:300]
