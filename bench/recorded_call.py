"""What a recorded call costs over a direct one: a model call beside asking the provider, a tool call beside
calling the environment.

The provider is a process of its own that answers at once: what is measured is ours, checking, metering,
recording, hashing, and one more HTTP hop on a Unix socket. Direct and recorded calls take turns in one run,
over connections that are kept open, with the context of an agent in the middle of its work.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from arena.recorder.budget import Budget
from arena.recorder.server import Recorder
from arena.recorder.upstream import Upstream
from bench.figures import Figure, main
from problems.ledger.ledger_environment import LedgerEnvironment
from problems.problem import Problem

ANSWER = json.dumps(
    {
        "id": "x",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes " * 50}}
        ],
        "usage": {"prompt_tokens": 3000, "completion_tokens": 50},
    }
).encode()
REPLY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
)
CONTEXT = 12
"""Messages that an agent has exchanged already, of some 1,000 characters each."""
PROBLEM = Problem(problem_id="p", environment="ledger", category="sum", query="What was paid?")


def measure(quick: bool) -> Sequence[Figure]:
    """Figures in milliseconds."""
    return asyncio.run(_measure(200 if quick else 2_000))


async def _measure(rounds: int) -> list[Figure]:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    provider = context.Process(target=_provide, args=(theirs,), daemon=True)
    provider.start()
    try:
        if not await asyncio.to_thread(ours.poll, 20):
            raise RuntimeError("the provider did not start")
        port = ours.recv()
        return await _figures(rounds, f"http://127.0.0.1:{port}/v1")
    finally:
        provider.terminate()
        provider.join()


async def _figures(rounds: int, url: str) -> list[Figure]:
    environment = LedgerEnvironment(())
    upstream = Upstream(url, None, ("m",))
    every = 10 * rounds + 100
    budget = Budget(
        model_calls=every,
        tool_calls=every,
        prompt_tokens=every * 10_000,
        completion_tokens=every * 1_000,
        total_bytes=every * 100_000,
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(upstream.aclose)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ar", dir="/tmp")))
        recorder = Recorder("bench", PROBLEM, environment, upstream, budget, 0)
        await stack.enter_async_context(recorder.serving(folder / "s"))
        direct = await stack.enter_async_context(httpx.AsyncClient(base_url=url))
        socket = httpx.AsyncHTTPTransport(uds=str(folder / "s"))
        recorded = await stack.enter_async_context(
            httpx.AsyncClient(transport=socket, base_url="http://arena/v1")
        )

        async def chat(client: httpx.AsyncClient) -> None:
            answer = await client.post("/chat/completions", json=_request())
            answer.raise_for_status()

        async def tool() -> None:
            answer = await recorded.post("http://arena/tools/search_transactions", json={"text": "x"})
            answer.raise_for_status()

        async def call() -> None:
            environment.call("search_transactions", {"text": "x"})

        models = await _in_turn(rounds, lambda: chat(direct), lambda: chat(recorded))
        tools = await _in_turn(rounds, call, tool)
    return [
        Figure("model call, recorded (p50)", models[1], "ms", baseline=models[0], goal=1.5, of="difference"),
        Figure("tool call, recorded (p50)", tools[1], "ms", baseline=tools[0], goal=1.5, of="difference"),
    ]


async def _in_turn(
    rounds: int, direct: Callable[[], Awaitable[None]], recorded: Callable[[], Awaitable[None]]
) -> tuple[float, float]:
    """Medians in milliseconds, of calls that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 20):
        for call, spent in zip((direct, recorded), times, strict=True):
            began = time.perf_counter()
            await call()
            if number >= 20:
                spent.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[0]), statistics.median(times[1])


def _request() -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": f"{i} " + "so it goes " * 90} for i in range(CONTEXT)]
    tools = [
        {"type": "function", "function": {"name": f"own{i}", "parameters": {"type": "object"}}}
        for i in range(4)
    ]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": "and?"}], "tools": tools}


def _provide(port: Connection) -> None:
    asyncio.run(_served(port))


async def _served(port: Connection) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        length = next(
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await reader.readexactly(length)
        writer.write(REPLY)
        await writer.drain()


if __name__ == "__main__":
    main(measure)
