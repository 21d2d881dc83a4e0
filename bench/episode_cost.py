"""What an episode costs beside a bare Python start: sandbox, recorder, agent kit, scoring and teardown.

The agent makes two tool calls and no model call, so that what is measured is ours. Both are measured in turn,
round by round, in one run. The bare start is the interpreter the agents run on, isolated, doing nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from arena.episode import play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Limits
from arena.sandbox.staging import stage
from bench.figures import Figure, main
from neurons.host import ready_sandbox, socket_root
from problems.shopping.world import prepare_generated

AGENT = b"""
def solve(problem, tools, llm):
    tools.recommend_product(product_ids="1")
    tools.terminate(status="success")
"""
CONCURRENT = 2


def measure(quick: bool) -> Sequence[Figure]:
    """Figures in milliseconds and episodes a minute."""
    return asyncio.run(_measure(20 if quick else 100))


async def _measure(rounds: int) -> list[Figure]:
    sandbox = await ready_sandbox(unsafe=False)
    python = str((await asyncio.to_thread(stage)).python)
    with tempfile.TemporaryDirectory() as folder, socket_root() as sockets:
        world = await asyncio.to_thread(
            prepare_generated, Path(folder) / "world", seed=1, products=300, public=3, pool=3
        )
        rules = Rules()
        upstream = Upstream("http://127.0.0.1:9", None, ("none",))

        async def episode(slot: int) -> float:
            began = time.perf_counter()
            record = await play(
                episode_id=f"bench-{slot}",
                source=AGENT,
                problem=world.public.problems[0],
                environment=world.environment,
                sandbox=sandbox,
                limits=Limits(**rules.sandbox.model_dump()),
                slot=slot,
                upstream=upstream,
                budget=Budget(**rules.budget.model_dump()),
                seed=0,
                socket_root=sockets,
            )
            if record.exit.reason != "stopped":
                raise RuntimeError(f"the episode ended by {record.exit.reason}: {record.exit.detail}")
            return time.perf_counter() - began

        try:
            await episode(0)  # warms the file cache for both
            starts, episodes = [], []
            for _ in range(rounds):
                starts.append(await _bare_start(python))
                episodes.append(await episode(0))
            rate = await _episodes_a_minute(episode, rounds)
        finally:
            await upstream.aclose()
    return [
        Figure(
            "episode, start to teardown (p50)",
            1e3 * statistics.median(episodes),
            "ms",
            baseline=1e3 * statistics.median(starts),
            goal=60,
            of="difference",
        ),
        Figure(
            f"episodes a minute, {CONCURRENT} at a time",
            rate,
            "1/min",
            baseline=60 / statistics.median(episodes),
            goal=600,
            at_most=False,
        ),
    ]


async def _bare_start(python: str) -> float:
    began = time.perf_counter()
    child = await asyncio.create_subprocess_exec(python, "-I", "-c", "pass")
    await child.wait()
    return time.perf_counter() - began


async def _episodes_a_minute(episode: Callable[[int], Awaitable[float]], rounds: int) -> float:
    async def series(slot: int) -> None:
        for _ in range(rounds):
            await episode(slot)

    began = time.perf_counter()
    await asyncio.gather(*(series(slot) for slot in range(CONCURRENT)))
    return 60 * CONCURRENT * rounds / (time.perf_counter() - began)


if __name__ == "__main__":
    main(measure)
