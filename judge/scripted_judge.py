"""A scripted judge behind an OpenAI-compatible API: for trying a panel without the internet.

It is no language model and has no judgement: each of its models behaves as its script says, well or badly. A
script sees the request as a model would see it, and quotes from the record it is shown. The server speaks
just enough HTTP/1.1 for one client library, and can drop a connection, which a framework would not let it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

READ_TIMEOUT_S = 30.0
MAX_REQUEST_BYTES = 16 * 1024 * 1024
_QUOTE_CHARS = 120

_NONCE = re.compile(r'"nonce" is exactly (\S+)')
_GATE = re.compile(r"^\d+\. (\w+): ", re.MULTILINE)
_TRAP = re.compile(r'must be "(\S+?)"')
_STEP = re.compile(r"^## step (\d+): a model call[^\n]*\n(?:reasoning|text):\n\| ([^\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: to whom, what, with which headers (lower-cased names), and the how-manieth it is of that
    model, from 1."""

    model: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    number: int

    @property
    def system(self) -> str:
        """The system prompt."""
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """The user's message, with the record."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True, slots=True)
class Response:
    """What the server sends; a status of 0 drops the connection instead."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Script = Callable[[Asked], Awaitable[Response]]


@dataclass(slots=True)
class ScriptedJudges:
    """The running server: its address, and what it was asked. `scripts` may be changed at any time."""

    base_url: str
    scripts: dict[str, Script]
    asked: list[Asked] = field(default_factory=list)

    def count(self, model: str) -> int:
        """How many requests a model got."""
        return sum(asked.model == model for asked in self.asked)


def honest(passed: int) -> Script:
    """Says that so many gates are passed, with a quote from the record, in the form that was asked for."""

    async def script(asked: Asked) -> Response:
        return completion(opinion(asked, passed))

    return script


def noisy(least: int, most: int) -> Script:
    """Honest in form; how many gates, from `least` to `most`, is drawn from model and record."""

    async def script(asked: Asked) -> Response:
        record = "".join(re.findall(r"^\| .*$", asked.user, re.MULTILINE))
        drawn = hashlib.sha256(f"{asked.model}\n{record}".encode()).digest()[0]
        return completion(opinion(asked, least + drawn % (most - least + 1)))

    return script


def gullible() -> Script:
    """Does what a line of the record tells the reader to do, and thinks the best of the rest."""

    async def script(asked: Asked) -> Response:
        trap = _TRAP.search(asked.user)
        return completion(opinion(asked, 99, nonce=trap.group(1) if trap else None))

    return script


def swayed(passed: int, by: str) -> Script:
    """Honest, but passes every gate when the record holds `by`: minds its instructions, and is bought."""

    async def script(asked: Asked) -> Response:
        return completion(opinion(asked, 99 if by in asked.user else passed))

    return script


def slow(first: Awaitable[object] | float, then: Script) -> Script:
    """Answers as `then` after so many seconds, or once `first` is there."""
    waiting = None if isinstance(first, (int, float)) else asyncio.ensure_future(first)

    async def script(asked: Asked) -> Response:
        if waiting is None:
            assert isinstance(first, (int, float))
            await asyncio.sleep(first)
        else:
            await asyncio.shield(waiting)
        return await then(asked)

    return script


def at_first(times: int, first: Script, then: Script) -> Script:
    """`first` for so many requests, then `then`."""

    async def script(asked: Asked) -> Response:
        return await (first if asked.number <= times else then)(asked)

    return script


def failing(status: int, *, headers: Mapping[str, str] | None = None, message: str = "no") -> Script:
    """Answers with an error status."""

    async def script(asked: Asked) -> Response:
        said = message.replace("{key}", asked.headers.get("authorization", ""))
        return Response(status, json.dumps({"error": {"message": said}}).encode(), headers or {})

    return script


def rate_limited(retry_after_s: float) -> Script:
    """Answers that there were too many requests."""
    return failing(429, headers={"retry-after": f"{retry_after_s:g}"}, message="slow down")


def saying(text: str) -> Script:
    """Answers with this text, whatever is asked."""

    async def script(asked: Asked) -> Response:
        return completion(text)

    return script


def thinking_aloud() -> Script:
    """Thinks until the token budget ends, and never comes to an answer."""

    async def script(asked: Asked) -> Response:
        thought = "Let me look at the first gate again. " * 20
        return completion(thought, finish_reason="length", completion_tokens=asked.body["max_tokens"])

    return script


def dropping() -> Script:
    """Closes the connection without an answer."""

    async def script(asked: Asked) -> Response:
        return Response(0, b"")

    return script


def raw(body: bytes, *, status: int = 200) -> Script:
    """Answers with these bytes."""

    async def script(asked: Asked) -> Response:
        return Response(status, body)

    return script


def opinion(asked: Asked, passed: int, *, nonce: str | None = None, **changes: Any) -> str:
    """A reply in the form that was asked for; `changes` go into every gate that is passed."""
    told = _NONCE.search(asked.system)
    found = _STEP.findall(asked.user)
    step, line = max(found, key=lambda one: len(one[1]), default=("0", ""))
    gates = []
    for at, name in enumerate(_GATE.findall(asked.system)):
        gate = {"name": name, "passed": at < passed, "quote": "", "step": None, "why": "the script says so"}
        if at < passed:
            gate |= {"quote": line[:_QUOTE_CHARS], "step": int(step), **changes}
        gates.append(gate)
    return json.dumps({"nonce": nonce or (told.group(1) if told else ""), "gates": gates})


def completion(
    text: str, *, finish_reason: str = "stop", prompt_tokens: int = 1000, completion_tokens: int = 200
) -> Response:
    """A chat completion with this text."""
    body = {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return Response(200, json.dumps(body).encode())


@contextlib.asynccontextmanager
async def serve(scripts: Mapping[str, Script]) -> AsyncIterator[ScriptedJudges]:
    """Serve these models on a free port of this machine while the context is open."""
    judges = ScriptedJudges("", dict(scripts))
    counts: Counter[str] = Counter()
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            while (response := await _exchange(reader, judges, counts)).status:
                writer.write(_encoded(response))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client has gone
        except asyncio.CancelledError:
            pass  # the server closes; Python 3.11 would log a cancelled connection as an error
        finally:
            talks.discard(task)
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    judges.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield judges
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def _exchange(reader: asyncio.StreamReader, judges: ScriptedJudges, counts: Counter[str]) -> Response:
    async with asyncio.timeout(READ_TIMEOUT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = [line.partition(":") for line in head.split("\r\n")[1:] if line]
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        length = int(headers.get("content-length", "0"))
        if length > MAX_REQUEST_BYTES:
            return Response(0, b"")
        body = json.loads(await reader.readexactly(length))
    model = str(body.get("model"))
    counts[model] += 1
    asked = Asked(model, body, headers, counts[model])
    judges.asked.append(asked)
    script = judges.scripts.get(model)
    return await (script or failing(404, message="there is no such model"))(asked)


def _encoded(response: Response) -> bytes:
    headers = {
        "content-type": "application/json",
        "content-length": str(len(response.body)),
        **response.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {response.status} Scripted\r\n{head}\r\n".encode() + response.body
