"""The provider of the model, as the recorder sees it: any OpenAI-compatible endpoint.

The API key lives here and nowhere else: it is added to the request on its way out, and removed from whatever
the provider says in return. The one thing to know: every failure is sorted into one of two kinds. A
`ProviderFault` is not the agent's doing and is retried, at most `retries` times; a `RequestRejected` is the
agent's own bad request and is not. An agent that is losing would rather not be scored, so what it can bring
about at will must not look like the provider's failing: where that could be, the provider is asked a small
question of our own, and one that answers it is well.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import SecretStr

from arena import strict_json
from arena.recorder.chat import ChatError, Reply, parse_reply

AGENTS_FAULT = frozenset({400, 413, 422})
"""Statuses by which a provider says that the request itself was bad."""
NOT_WORTH_RETRYING = frozenset({401, 402, 403, 404})
"""Our key, account or address is wrong; asking again will not help."""
MODERATED = 403
"""Our key was refused, or the words of this very request were; a question of our own tells which."""
MAX_PAUSE_S = 10.0

ORDINARY_TOKENS = 1_024
ORDINARY_PROMPT_BYTES = 32 * 1024
"""A request within both must be answered in time by any provider fit for use. One beyond may have taken
longer because it asked for a lot."""


class ProviderFault(Exception):
    """The provider did not answer as it should. The message is fit for a log: it holds no key.

    `late` says that it did not answer in time.
    """

    def __init__(self, message: str, status: int | None = None, *, late: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.late = late


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
                return await self._attempt(payload, self.timeout_s)
            except ProviderFault as fault:
                faults.append(fault)
                rejected = await self._provoked(fault, payload)
                if rejected is not None:
                    faults.remove(fault)
                    raise rejected from None
                if len(faults) > self.retries or fault.status in NOT_WORTH_RETRYING:
                    raise
            pause = self._pause_s * 2 ** (len(faults) - 1) * (0.5 + jitter)
            await asyncio.sleep(min(pause, MAX_PAUSE_S))

    async def _provoked(self, fault: ProviderFault, payload: dict[str, Any]) -> RequestRejected | None:
        """The fault as the request's own doing, if it is that; until then it is the provider's."""
        if fault.status == MODERATED and await self._is_well(payload["model"]):
            return RequestRejected(f"{fault}; it answers other requests", MODERATED)
        if fault.late and _is_large(payload) and await self._is_well(payload["model"]):
            return RequestRejected(
                f"{fault}, while it answers small requests: ask for at most {ORDINARY_TOKENS} tokens, on "
                f"at most {ORDINARY_PROMPT_BYTES} bytes of messages",
                413,
            )
        return None

    async def _is_well(self, model: str) -> bool:
        """Whether the provider answers a small question of our own, and promptly."""
        question = {"model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 16}
        try:
            await self._attempt({**question, "stream": False}, self.timeout_s / 2)
        except (ProviderFault, RequestRejected):
            return False
        return True

    async def _attempt(self, payload: dict[str, Any], timeout_s: float) -> Reply:
        try:
            async with asyncio.timeout(timeout_s):
                status, body = await self._post(payload)
        except (TimeoutError, httpx.TimeoutException):
            raise ProviderFault(f"no answer within {timeout_s:g} s", late=True) from None
        except httpx.HTTPError as error:
            raise ProviderFault(f"connection failed ({type(error).__name__})") from None
        if status in AGENTS_FAULT:
            raise RequestRejected(self._said(body), status)
        if status != 200:
            raise ProviderFault(f"status {status}: {self._said(body)}", status)
        try:
            return parse_reply(strict_json.loads(body, max_bytes=self._max_response_bytes))
        except strict_json.UnstorableText as error:
            # The provider did its part; it is what the model was made to write that cannot be kept.
            raise RequestRejected(f"the model's answer cannot be kept: {error}", 422) from None
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


def _is_large(payload: Mapping[str, Any]) -> bool:
    read = len(json.dumps([payload["messages"], payload.get("tools")], ensure_ascii=False).encode())
    return payload["max_tokens"] > ORDINARY_TOKENS or read > ORDINARY_PROMPT_BYTES
