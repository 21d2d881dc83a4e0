"""What an episode costs beside a bare Python start: sandbox, recorder, agent kit, scoring and teardown.

The agent asks a model that answers at once and makes two tool calls, so that what is measured is ours. The
bare start is the interpreter the agents run on, isolated, doing nothing. Bare starts and episodes in each
backend take turns, round by round, in one run; Docker is left out where no engine runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.bubblewrap import bubblewrap_sandbox
from arena.sandbox.docker import docker_sandbox
from arena.sandbox.sandbox import Limits, Sandbox, SandboxUnavailable
from arena.sandbox.staging import StagedPython, stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from bench.figures import Figure, main
from neurons.host import socket_root
from problems.shopping.world import World
from problems.worlds import prepared

AGENT = b"""
def solve(problem, tools, llm):
    llm.chat([{"role": "user", "content": "which one?"}])
    tools.search_transactions()
    tools.submit_answer(answer="1")
"""
CONCURRENT = 2
DOCKER_SHARE = 5
"""One episode in so many is also played in Docker, which takes far longer."""
_ANSWER = json.dumps(
    {
        "id": "x",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "1"}}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 1},
    }
).encode()


@dataclass(frozen=True, slots=True)
class _Stage:
    """What an episode is played with, but for the sandbox."""

    world: World
    upstream: Upstream
    sockets: Path
    rules: Rules

    async def episode(self, sandbox: Sandbox, slot: int = 0) -> tuple[float, EpisodeRecord]:
        """Play one; seconds, and its record. Raises RuntimeError unless it ended as it should."""
        began = time.perf_counter()
        record = await play(
            episode_id=f"bench-{slot}",
            source=AGENT,
            problem=self.world.public.problems[0],
            environment=self.world.environment,
            sandbox=sandbox,
            limits=Limits(**self.rules.sandbox.model_dump()),
            slot=slot,
            upstream=self.upstream,
            budget=Budget(**self.rules.budget.model_dump()),
            seed=0,
            socket_root=self.sockets,
        )
        took = time.perf_counter() - began
        if record.exit.reason not in ("stopped", "exit") or record.exit.return_code:
            raise RuntimeError(f"the episode ended by {record.exit.reason}: {record.exit.stderr}")
        return took, record

    async def rate(self, sandbox: Sandbox, rounds: int) -> float:
        """Episodes a minute, some at a time."""

        async def series(slot: int) -> None:
            for _ in range(rounds):
                await self.episode(sandbox, slot)

        began = time.perf_counter()
        await asyncio.gather(*(series(slot) for slot in range(CONCURRENT)))
        return 60 * CONCURRENT * rounds / (time.perf_counter() - began)


def measure(quick: bool) -> Sequence[Figure]:
    """Figures in milliseconds, episodes a minute, and megabytes."""
    return asyncio.run(_measure(15 if quick else 60))


async def _measure(rounds: int) -> list[Figure]:
    staged = await asyncio.to_thread(stage)
    boxes = await _sandboxes(staged)
    with tempfile.TemporaryDirectory() as folder, socket_root() as sockets:
        world = await asyncio.to_thread(
            prepared, "ledger", Path(folder) / "world", seed=1, public=3, pool=3, products=0
        )
        async with _instant_provider() as url:
            upstream = Upstream(url, None, ("none",))
            setting = _Stage(world, upstream, sockets, Rules())
            try:
                return await _figures(setting, boxes, str(staged.python), rounds)
            finally:
                await upstream.aclose()


async def _sandboxes(staged: StagedPython) -> dict[str, Sandbox]:
    found: dict[str, Sandbox] = {
        "plain subprocess": SubprocessSandbox(staged),
        "bubblewrap": await bubblewrap_sandbox(staged),
    }
    with contextlib.suppress(SandboxUnavailable):
        found["docker"] = await docker_sandbox(staged)
    return found


async def _figures(setting: _Stage, boxes: dict[str, Sandbox], python: str, rounds: int) -> list[Figure]:
    starts: list[float] = []
    took: dict[str, list[float]] = {name: [] for name in boxes}
    peak: dict[str, int] = {}
    for turn in range(-1, rounds):
        bare = await _bare_start(python)
        if turn >= 0:  # the first turn warms the file cache for all
            starts.append(bare)
        for name, sandbox in boxes.items():
            if name == "docker" and turn % DOCKER_SHARE and turn >= 0:
                continue
            seconds, record = await setting.episode(sandbox)
            if turn >= 0:
                took[name].append(seconds)
                peak[name] = max(peak.get(name, 0), record.exit.peak_memory_bytes)
    bare_ms = 1e3 * statistics.median(starts)
    figures = [
        Figure(
            f"episode in {name}, start to teardown (p50)",
            1e3 * statistics.median(seconds),
            "ms",
            baseline=bare_ms,
            goal=60 if name == "bubblewrap" else None,
            of="difference",
        )
        for name, seconds in took.items()
    ]
    plain = await setting.rate(boxes["plain subprocess"], rounds)
    contained = await setting.rate(boxes["bubblewrap"], rounds)
    figures.append(
        Figure(
            f"episodes a minute in bubblewrap, {CONCURRENT} at a time, model instant",
            contained,
            "1/min",
            baseline=plain,
            goal=600,
            at_most=False,
        )
    )
    figures += [
        Figure(
            f"memory of a running episode in {name}",
            size / 2**20,
            "MiB",
            baseline=peak["plain subprocess"] / 2**20,
        )
        for name, size in peak.items()
        if name != "plain subprocess"
    ]
    return figures


@contextlib.asynccontextmanager
async def _instant_provider() -> AsyncIterator[str]:
    """An OpenAI-compatible endpoint that answers without thinking."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                await reader.readexactly(length)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%b" % (len(_ANSWER), _ANSWER)
                )
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def _bare_start(python: str) -> float:
    began = time.perf_counter()
    child = await asyncio.create_subprocess_exec(python, "-I", "-c", "pass")
    await child.wait()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(measure)
