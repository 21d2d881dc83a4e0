"""One language model behind an OpenAI-compatible endpoint, with a deadline, a pace, a breaker and a purse.

Every failure is one of the faults below; `cost` says what it cost, None when that cannot be known (the
request was sent, and no usage came back). The key is added to a request on its way out, and removed from
whatever the provider says in return: it is in no message, log or representation.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

import httpx
from pydantic import SecretStr

from judge.breaker import Breaker, Pace, State

MAX_RESPONSE_BYTES = 1024 * 1024
BLAMES_THE_REQUEST = frozenset({400, 413, 422})
"""By these a provider says that this one request is bad, which long or odd evidence can bring about; they say
nothing of the endpoint, and do not count towards its breaker."""
TEMPLATE_TOKENS = 256
"""Allowed for what the provider's chat template adds to a prompt."""
MAX_RETRY_AFTER_S = 600.0
DEFAULT_RETRY_AFTER_S = 5.0
_SAID_CHARS = 200
_FIXED = frozenset({"model", "messages", "stream", "n", "response_format"})
_MOST_TOKENS = 2**32

Message = Mapping[str, str]


class EndpointFault(Exception):
    """The endpoint gave no answer that could be read. `cost` is in nanodollars, None when unknown."""

    counts = True
    """Whether it speaks against the endpoint (and its breaker), not against the one request."""

    def __init__(self, message: str, *, cost: int | None = 0) -> None:
        super().__init__(message)
        self.cost = cost


class RateLimited(EndpointFault):
    """Too many requests; nothing is sent before `retry_after_s` have passed."""

    counts = False

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TimedOut(EndpointFault):
    """No answer in time."""


class Unreachable(EndpointFault):
    """No connection, a dropped one, or a server error."""


class Refused(EndpointFault):
    """Our key, account or address is wrong; asking again will not help."""


class RequestRefused(EndpointFault):
    """The provider or the model declines this one request."""

    counts = False


class MalformedAnswer(EndpointFault):
    """A reply that is no chat completion."""


class OutOfTokens(EndpointFault):
    """The completion's budget was spent before the answer was there, as by thinking aloud."""

    counts = False


class CircuitOpen(EndpointFault):
    """Not asked: the endpoint failed several times in a row, and its pause is not over."""

    counts = False


class SpendCapReached(EndpointFault):
    """Not asked: the day's money is spent."""

    counts = False


class Purse(Protocol):
    """Who pays. Amounts are in nanodollars."""

    async def reserve(self, amount: int) -> date:
        """Set money aside before a request; returns the day it counts on. Raises SpendCapReached."""

    async def settle(self, reserved: int, cost: int, day: date) -> None:
        """Put what a request did cost in the place of what was set aside. What is never settled counts in
        full."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote, and what it cost in nanodollars; None when the provider counted no tokens."""

    text: str
    cost: int | None


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """How one model is reached and what it costs. Prices are in dollars a million tokens."""

    base_url: str
    model: str
    api_key: SecretStr | None = None
    prompt_price: float = 0.0
    completion_price: float = 0.0
    timeout_s: float = 60.0
    requests_per_minute: int = 120
    max_concurrent: int = 8
    max_tokens: int = 4096
    structured: bool = False
    """Whether it takes `response_format` with a JSON schema."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """More of the request's body, over what is asked by default; a key with None is left out. For what
    providers differ in: how long to think, how the token limit is called."""
    faults_to_open: int = 3
    pause_s: float = 30.0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?", self.base_url):
            raise ValueError(
                f"the address of model {self.model} must be http(s)://host/path, without user, query or key: "
                "the key has a setting of its own"
            )
        prices = (self.prompt_price, self.completion_price)
        if not all(math.isfinite(price) and price >= 0 for price in prices):
            raise ValueError(f"prices of model {self.model} must be zero or more")
        if self.timeout_s <= 0 or self.max_concurrent < 1 or self.max_tokens < 1:
            raise ValueError(f"timeout, concurrency and token limit of model {self.model} must be above zero")
        if fixed := _FIXED & self.request.keys():
            raise ValueError(
                f"{', '.join(sorted(fixed))} of a request to model {self.model} cannot be changed"
            )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Nanodollars of one request, rounded up."""
        return math.ceil(
            1e3 * (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price)
        )

    def worst_cost(self, messages: Sequence[Message]) -> int:
        """The most that a request can cost: a token is at least one byte of text."""
        read = sum(len(m["content"].encode("utf-8", "replace")) for m in messages) + TEMPLATE_TOKENS
        return self.cost(read, self.max_tokens)


class Endpoint:
    """One model, shared by all judgements of a process. Close it with `aclose`.

    `spent` counts nanodollars of this process. `clock` is monotonic, in seconds.
    """

    def __init__(self, config: EndpointConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.spent = 0
        self.requests = 0
        self._clock = clock
        self._url = config.base_url.rstrip("/") + "/chat/completions"
        self._breaker = Breaker(faults_to_open=config.faults_to_open, pause_s=config.pause_s, clock=clock)
        self._pace = Pace(config.requests_per_minute, clock=clock)
        self._quiet_until = -math.inf
        self._room = asyncio.Semaphore(config.max_concurrent)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(config.timeout_s, connect=min(config.timeout_s, 10.0)),
            limits=httpx.Limits(max_connections=config.max_concurrent),
        )

    def __repr__(self) -> str:
        return f"Endpoint({self._url!r}, model={self.model!r})"

    @property
    def model(self) -> str:
        """The model's name."""
        return self.config.model

    @property
    def state(self) -> State:
        """Of its breaker."""
        return self._breaker.state

    @property
    def ready(self) -> bool:
        """Whether a request would be sent now, as far as can be told."""
        return self.state != "open" and self._clock() >= self._quiet_until

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(self, messages: Sequence[Message], schema: Mapping[str, Any], purse: Purse) -> Answer:
        """One chat completion, paid from `purse`. Raises EndpointFault; never tries twice.

        The caller bounds the wait for a place in line; `timeout_s` bounds the request itself.
        """
        async with self._room:
            self._admit()
            sent = False
            try:
                await asyncio.sleep(self._pace.wait_s())
                reserved = self.config.worst_cost(messages)
                day = await purse.reserve(reserved)
                sent = True
                answer = await self._paid(messages, schema, purse, reserved, day)
            except EndpointFault as fault:
                self._learn(fault, sent)
                raise
            except BaseException:  # cancelled, as by a deadline, or our own store is down
                if sent:
                    self._breaker.failed()
                else:
                    self._breaker.unsent()
                raise
            self._breaker.succeeded()
            return answer

    def _admit(self) -> None:
        if (left := self._quiet_until - self._clock()) > 0:
            raise RateLimited(f"{self.model} asked for quiet for {left:.0f} s more", left)
        if not self._breaker.admit():
            raise CircuitOpen(f"{self.model} failed several times in a row and is left alone for a while")

    def _learn(self, fault: EndpointFault, sent: bool) -> None:
        if isinstance(fault, RateLimited):
            self._quiet_until = max(self._quiet_until, self._clock() + fault.retry_after_s)
        if not sent:
            self._breaker.unsent()
        elif fault.counts:
            self._breaker.failed()
        else:
            self._breaker.succeeded()

    async def _paid(
        self, messages: Sequence[Message], schema: Mapping[str, Any], purse: Purse, reserved: int, day: date
    ) -> Answer:
        cost: int | None = None
        try:
            answer = await self._post(messages, schema)
            cost = answer.cost
        except EndpointFault as fault:
            cost = fault.cost
            raise
        finally:
            self.spent += reserved if cost is None else cost
            if cost is not None:
                await purse.settle(reserved, cost, day)
        return answer

    async def _post(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Answer:
        payload: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(m) for m in messages],
            "temperature": 0,
            "max_tokens": self.config.max_tokens,
            "stream": False,
        }
        if self.config.structured:
            payload["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "judgement", "strict": True, "schema": dict(schema)},
            }
        payload = {k: v for k, v in (payload | dict(self.config.request)).items() if v is not None}
        self.requests += 1
        try:
            async with asyncio.timeout(self.config.timeout_s):
                response, body = await self._read(payload)
        except (TimeoutError, httpx.TimeoutException):
            raise TimedOut(
                f"{self.model} gave no answer within {self.config.timeout_s:g} s", cost=None
            ) from None
        except httpx.HTTPError as error:
            raise Unreachable(
                f"connection to {self.model} failed: {type(error).__name__}", cost=None
            ) from None
        if response.status_code != 200:
            raise self._fault(response, body)
        return self._answer(body)

    async def _read(self, payload: Mapping[str, Any]) -> tuple[httpx.Response, bytes]:
        key = self.config.api_key
        headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        body = bytearray()
        async with self._client.stream("POST", self._url, json=payload, headers=headers) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_RESPONSE_BYTES:
                    raise MalformedAnswer(
                        f"{self.model} answered with more than {MAX_RESPONSE_BYTES} bytes", cost=None
                    )
            return response, bytes(body)

    def _fault(self, response: httpx.Response, body: bytes) -> EndpointFault:
        status = response.status_code
        said = f"{self.model} answered with status {status}: {self._said(body)}"
        if status == 429:
            return RateLimited(said, _retry_after(response.headers.get("retry-after")))
        if status in BLAMES_THE_REQUEST:
            return RequestRefused(said)
        return Refused(said) if 400 <= status < 500 else Unreachable(said)

    def _answer(self, body: bytes) -> Answer:
        try:
            value = json.loads(body)
            choice = value["choices"][0]
            message, finished = choice["message"], choice.get("finish_reason")
            text, refusal = message.get("content"), message.get("refusal")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise MalformedAnswer(f"{self.model} answered with no chat completion", cost=None) from None
        cost = self._cost(value.get("usage"))
        if finished == "length":
            raise OutOfTokens(
                f"{self.model} spent its {self.config.max_tokens} tokens before the answer was there: "
                "raise max_tokens or have it think less",
                cost=cost,
            )
        if refusal or finished == "content_filter":
            raise RequestRefused(f"{self.model} declined to answer", cost=cost)
        if not isinstance(text, str) or not text.strip():
            raise MalformedAnswer(f"{self.model} answered without text", cost=cost)
        return Answer(text, cost)

    def _cost(self, usage: object) -> int | None:
        if not isinstance(usage, dict):
            return None
        read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not (isinstance(read, int) and isinstance(written, int) and read >= 0 and written >= 0):
            return None
        return self.config.cost(read, written) if max(read, written) < _MOST_TOKENS else None

    def _said(self, body: bytes) -> str:
        """The provider's own words on an error, short and without our key."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return "no reason given"
        error = value.get("error") if isinstance(value, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        text = message if isinstance(message, str) else "no reason given"
        if self.config.api_key is not None:
            text = text.replace(self.config.api_key.get_secret_value(), "[key]")
        return text[:_SAID_CHARS]


def _retry_after(header: str | None) -> float:
    """Seconds of a Retry-After header; a date or nonsense counts as the default."""
    if header is None or not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", header.strip()):
        return DEFAULT_RETRY_AFTER_S
    return min(float(header), MAX_RETRY_AFTER_S)
