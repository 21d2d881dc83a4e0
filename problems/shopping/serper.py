"""A web search over HTTP, as serper.dev answers it and services that imitate it do.

`POST {base_url}/search` with the key in the header `X-API-KEY` and `{"q", "num"}`; the reply holds `organic`
results ({title, link, snippet}) and sometimes an `answerBox`, which is put first. The key lives in the
client's headers alone: no message, repr or result holds it, and what the service says in an error is not
repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from problems.environment import ServiceUnavailable
from problems.shopping.web import SearchRefused, Snippet

SERPER = "https://google.serper.dev"
_BAD_QUERY = frozenset({400, 413, 422})
"""By these the service says that the query itself is bad."""
_NOT_WORTH_RETRYING = frozenset({401, 402, 403, 404})
"""The key, the account or the address is wrong: asking again will not help."""
_MAX_BYTES = 2 * 1024 * 1024


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    title: str | None = None
    link: str | None = None
    snippet: str | None = None
    answer: str | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    organic: list[_Entry] = Field(default_factory=list)
    answer_box: _Entry | None = Field(default=None, alias="answerBox")


class SerperSearch:
    """A Serper-compatible service. Shared by all episodes of a process; close it with `close`.

    `timeout_s` bounds one attempt from connecting to the last byte, `retries` the attempts after the first,
    `pause_s` (doubled every time) the wait between them.
    """

    def __init__(
        self,
        api_key: SecretStr,
        base_url: str = SERPER,
        *,
        timeout_s: float = 6.0,
        retries: int = 2,
        pause_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if timeout_s <= 0 or retries < 0:
            raise ValueError("a web search needs a timeout above zero and a count of retries, zero or more")
        self._url = base_url.rstrip("/") + "/search"
        self.name = f"serper at {httpx.URL(self._url).host}"
        self._timeout_s = timeout_s
        self._retries = retries
        self._pause_s = pause_s
        self._clock = clock
        self._sleep = sleep
        self._client = httpx.Client(
            headers={"X-API-KEY": api_key.get_secret_value()}, timeout=timeout_s, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"SerperSearch({self._url!r})"

    @property
    def longest_s(self) -> float:
        """The most that one search can take, all attempts and pauses together."""
        return (self._retries + 1) * self._timeout_s + self._pause_s * (2.0**self._retries - 1)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def search(self, q: str, max_results: int) -> list[Snippet]:
        """Ask the service. Raises ServiceUnavailable when the last attempt failed, SearchRefused."""
        failed = "it was not asked"
        for attempt in range(self._retries + 1):
            if attempt:
                self._sleep(self._pause_s * 2.0 ** (attempt - 1))
            try:
                status, body = self._post(q, max_results)
            except httpx.TimeoutException:
                failed = f"no answer within {self._timeout_s:g} s"
                continue
            except httpx.HTTPError as error:
                failed = f"connection failed ({type(error).__name__})"
                continue
            if status in _BAD_QUERY:
                raise SearchRefused("the web search cannot take this query; say it in other words")
            failed = f"status {status}"
            if status in _NOT_WORTH_RETRYING:
                break
            if status == 200:
                try:
                    return list(_snippets(_Reply.model_validate_json(body)))[:max_results]
                except ValidationError:
                    failed = "a malformed answer"
        raise ServiceUnavailable(f"web search, {self.name}: {failed}")

    def _post(self, q: str, max_results: int) -> tuple[int, bytes]:
        """Status and body. Raises httpx.HTTPError; a body that is too slow or too large is one."""
        ends = self._clock() + self._timeout_s
        body = bytearray()
        question = {"q": q, "num": max_results}
        with self._client.stream("POST", self._url, json=question) as response:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > _MAX_BYTES:
                    raise httpx.DecodingError(f"answer larger than {_MAX_BYTES} bytes")
                if self._clock() > ends:
                    raise httpx.ReadTimeout("the answer came too slowly")
            return response.status_code, bytes(body)


def _snippets(reply: _Reply) -> Iterator[Snippet]:
    for entry in ([reply.answer_box] if reply.answer_box else []) + reply.organic:
        content = " ".join(part for part in (entry.answer, entry.snippet) if part)
        if content:
            yield Snippet(url=entry.link or "", title=entry.title or "", content=content)
