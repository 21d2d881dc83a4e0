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
import contextlib
import json
import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import httpcore
import httpx
from pydantic import SecretStr

from arena import strict_json
from arena.recorder.assembly import Assembly
from arena.recorder.budget import Price
from arena.recorder.chat import ChatError, Reply, parse_reply
from arena.recorder.connections import pool

AGENTS_FAULT = frozenset({400, 413, 422})
"""Statuses by which a provider says that the request itself was bad."""
NOT_WORTH_RETRYING = frozenset({401, 402, 403, 404})
"""Our key, account or address is wrong; asking again will not help."""
MODERATED = 403
"""Our key was refused, or the words of this very request were; a question of our own tells which."""
KEYS_FAULT = frozenset({401, 402, 429})
"""What a provider says to a key that is wrong, out of credit or used too much. It is the fault of whoever the
key belongs to: see `Upstream`."""
CONNECT_S = 10.0
MAX_PAUSE_S = 10.0
MAX_RETRY_AFTER_S = 60.0
"""A provider that wants to be left alone for longer than that has failed the call."""

ORDINARY_TOKENS = 1_024
ORDINARY_PROMPT_BYTES = 32 * 1024
"""A request within both must be answered in time by any provider fit for use. One beyond may have taken
longer because it asked for a lot."""

_CONNECTION_FAILED = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)


class ProviderFault(Exception):
    """The provider did not answer as it should. The message is fit for a log: it holds no key.

    `late` says that it did not answer in time; `retry_after_s` is how long it wants to be left alone.
    """

    def __init__(
        self, message: str, status: int | None = None, *, late: bool = False, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.late = late
        self.retry_after_s = retry_after_s


class RequestRejected(Exception):
    """The provider says that the request is bad."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class KeyRefused(Exception):
    """The provider will not serve the miner's own key: that is between the two. `status` is what it said."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def _unlimited() -> float:
    return math.inf


@dataclass(slots=True)
class Asking:
    """How one model call is made, and what becomes of it on the way."""

    jitter: float = 0.5
    """0 to 1: spreads the retries of different episodes."""
    left_s: Callable[[], float] = _unlimited
    """What is left of the episode: nothing is tried again that would begin after it."""
    say: Callable[[dict[str, str]], None] | None = None
    """Given pieces of text as they come; None asks for the answer whole."""
    said: bool = False
    """Whether anything was passed to `say`: from then on there is no asking again."""
    faults: list[ProviderFault] = field(default_factory=list)
    """Each failed attempt, as it happens."""


class Model(Protocol):
    """Who answers the model calls of an episode: a provider, or the record of an earlier episode."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that agents may name; the first is what "default" means."""

    @property
    def prices(self) -> Mapping[str, Price]:
        """What they cost, where known."""

    def resolve(self, model: str) -> str | None:
        """The name by which the provider knows `model`; None when it is not allowed."""

    async def complete(self, payload: dict[str, Any], asking: Asking) -> Reply:
        """One chat completion. Raises ProviderFault, RequestRejected and KeyRefused."""


class Upstream:
    """One provider, shared by all episodes of a process.

    `models` is the allowlist; its first entry is what "default" means. `timeout_s` bounds one attempt,
    `retries` the attempts after the first, `pause_s` (doubled every time) the wait between them.
    `miners_key` says that the key is the miner's own: what the provider says of the key is then theirs to
    answer for, and no failure of the provider's. Close it with `aclose`, in the event loop that used it.
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
        prices: Mapping[str, Price] | None = None,
        miners_key: bool = False,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        if not models:
            raise ValueError("an upstream needs at least one model: name it in the allowlist")
        if timeout_s <= 0 or retries < 0:
            raise ValueError("an upstream needs a timeout above zero and a count of retries, zero or more")
        self.models = models
        self.timeout_s = timeout_s
        self.retries = retries
        self.prices: Mapping[str, Price] = dict(prices or {})
        self._pause_s = pause_s
        self._miners_key = miners_key
        self._streams = True
        self._max_response_bytes = max_response_bytes
        self._url = httpx.URL(base_url.rstrip("/") + "/chat/completions")
        self._api_key = api_key
        authorization = {"authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
        headers = {"content-type": "application/json", "accept": "*/*", "accept-encoding": "identity"}
        # GET, which has no length yet; httpx knows how the host is written.
        self._headers = httpx.Request("GET", self._url, headers=headers | authorization).headers.raw
        self._target = httpcore.URL(str(self._url))
        self._extensions = {"timeout": {"connect": min(timeout_s, CONNECT_S), "pool": timeout_s}}
        self._pool = pool(self._url, verify, connections)

    def __repr__(self) -> str:
        return f"Upstream({str(self._url)!r}, models={self.models!r})"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    def resolve(self, model: str) -> str | None:
        """The name by which the provider knows `model`; None when it is not allowed."""
        if model == "default":
            return self.models[0]
        return model if model in self.models else None

    async def complete(self, payload: dict[str, Any], asking: Asking) -> Reply:
        """One chat completion.

        Raises ProviderFault when the last attempt failed, RequestRejected when the provider blames the
        request, KeyRefused when it blames the miner's own key.
        """
        faults = asking.faults
        while True:
            try:
                return await self._ask(payload, asking)
            except ProviderFault as fault:
                faults.append(fault)
                rejected = await self._provoked(fault, payload)
                if rejected is not None:
                    faults.remove(fault)
                    raise rejected from None
                if asking.said or len(faults) > self.retries or fault.status in NOT_WORTH_RETRYING:
                    raise self._whose(fault) from None
                backoff = self._pause_s * 2 ** (len(faults) - 1) * (0.5 + asking.jitter)
                pause = max(min(backoff, MAX_PAUSE_S), fault.retry_after_s)
                if pause > MAX_RETRY_AFTER_S or pause >= asking.left_s():
                    raise self._whose(fault) from None
            await asyncio.sleep(pause)

    async def check_key(self) -> None:
        """Ask a small question. Raises KeyRefused when the provider will not serve the miner's own key.

        Anything else that goes wrong says nothing of the key.
        """
        try:
            await self._attempt(_question(self.models[0]), self.timeout_s)
        except RequestRejected:
            return
        except ProviderFault as fault:
            found = self._whose(fault)
            if isinstance(found, KeyRefused):
                raise found from None

    def _whose(self, fault: ProviderFault) -> ProviderFault | KeyRefused:
        """The fault, as the key's when it is a miner's own and the provider says so."""
        if not self._miners_key or fault.status not in KEYS_FAULT | {MODERATED}:
            return fault
        assert fault.status is not None
        return KeyRefused(str(fault), fault.status)

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
        try:
            await self._attempt(_question(model), self.timeout_s / 2)
        except (ProviderFault, RequestRejected):
            return False
        return True

    async def _ask(self, payload: dict[str, Any], asking: Asking) -> Reply:
        """One attempt, streamed if it may be. A provider that will not stream is asked for it whole."""
        if asking.say is None or not self._streams:
            return await self._attempt(payload, self.timeout_s)
        try:
            streamed = {**payload, "stream": True, "stream_options": {"include_usage": True}}
            return await self._attempt(streamed, self.timeout_s, asking)
        except RequestRejected:
            if asking.said:
                raise
        reply = await self._attempt(payload, self.timeout_s)
        self._streams = False
        return reply

    async def _attempt(
        self, payload: dict[str, Any], timeout_s: float, asking: Asking | None = None
    ) -> Reply:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(payload, asking)
        except (TimeoutError, httpcore.TimeoutException):
            raise ProviderFault(f"no answer within {timeout_s:g} s", late=True) from None
        except _CONNECTION_FAILED as error:
            raise ProviderFault(f"connection failed ({type(error).__name__})") from None
        except strict_json.UnstorableText as error:
            # The provider did its part; it is what the model was made to write that cannot be kept.
            raise RequestRejected(f"the model's answer cannot be kept: {error}", 422) from None
        except (strict_json.StrictJsonError, ChatError) as error:
            raise ProviderFault(f"malformed answer: {error}", 200) from None

    async def _exchange(self, payload: dict[str, Any], asking: Asking | None) -> Reply:
        async with contextlib.aclosing(await self._send(payload)) as response:
            if response.status == 200 and asking is not None and _is_event_stream(response):
                assembly = Assembly(_listener(asking), self._max_response_bytes)
                async for piece in self._pieces(response):
                    assembly.feed(piece)
                return parse_reply(assembly.completion())
            body = b"".join([piece async for piece in self._pieces(response)])
        status = response.status
        if status in AGENTS_FAULT:
            raise RequestRejected(self._said(body), status)
        if status != 200:
            wait_s = _retry_after_s(response)
            raise ProviderFault(f"status {status}: {self._said(body)}", status, retry_after_s=wait_s)
        return parse_reply(strict_json.loads(body, max_bytes=self._max_response_bytes))

    async def _send(self, payload: dict[str, Any]) -> httpcore.Response:
        content = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        length = (b"content-length", str(len(content)).encode())
        request = httpcore.Request(
            b"POST",
            self._target,
            headers=[*self._headers, length],
            content=content,
            extensions=self._extensions,
        )
        return await self._pool.handle_async_request(request)

    async def _pieces(self, response: httpcore.Response) -> AsyncIterator[bytes]:
        size = 0
        async for piece in response.aiter_stream():
            size += len(piece)
            if size > self._max_response_bytes:
                raise ProviderFault(f"answer larger than {self._max_response_bytes} bytes", 200)
            yield piece

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


def _question(model: str) -> dict[str, Any]:
    question = {"role": "user", "content": "Say yes."}
    return {"model": model, "messages": [question], "max_tokens": 16, "stream": False}


def _listener(asking: Asking) -> Callable[[dict[str, str]], None]:
    say = asking.say
    assert say is not None

    def listen(delta: dict[str, str]) -> None:
        asking.said = True
        say(delta)

    return listen


def _header(response: httpcore.Response, name: bytes) -> str:
    """The first header of that name, given in lower case; empty when there is none."""
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "")


def _is_event_stream(response: httpcore.Response) -> bool:
    return _header(response, b"content-type").startswith("text/event-stream")


def _retry_after_s(response: httpcore.Response) -> float:
    """What `Retry-After` says: seconds, or a date, which is taken by the provider's own clock."""
    text = _header(response, b"retry-after")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        wanted = parsedate_to_datetime(text)
        now = parsedate_to_datetime(_header(response, b"date"))
        return max(0.0, (wanted - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
