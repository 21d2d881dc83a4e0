"""The local chain: how fast a metagraph is read, blocks are made, and whether it grows as it goes on.

The SDK reads subnets whose every uid is taken, from a node in a process of its own; the baseline of the large
subnet is the small one's time, times as many neurons. The node's memory is its resident set, before and after
blocks that leave a full window of history behind them; the baseline is what it had when the window was full.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import bittensor as bt
import bittensor_core
import psutil

from bench.figures import Figure, main
from neurons.localnet.launch import LocalNet
from neurons.localnet.state import HISTORY_BLOCKS
from neurons.localnet.subnet import SubnetOptions

SMALL, LARGE = 256, 4096
READS = 5
MOST_GROWTH = 1.5
"""A subnet of so many times the neurons may take so much more than so many times the time."""
MOST_MEMORY = 1.15
LEAST_BLOCKS_A_SECOND = 20.0
BLOCKS, WARM_UP = 10_000, HISTORY_BLOCKS + HISTORY_BLOCKS // 4
QUICK_BLOCKS, QUICK_WARM_UP = 1_000, 500


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds a read, blocks a second, MiB."""
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as name:
        os.environ["BITTENSOR_RUNTIME_CACHE_DIR"] = name
        return [*_metagraphs(Path(name)), *_blocks(Path(name), quick)]


def _metagraphs(folder: Path) -> list[Figure]:
    with LocalNet(state=folder / "graphs.sqlite", block_time_s=0.0) as net:
        took = {size: asyncio.run(_read_s(net, netuid, size)) for netuid, size in ((1, SMALL), (2, LARGE))}
    scaled = took[SMALL] * LARGE / SMALL
    return [
        Figure(f"metagraph of {SMALL} uids, read by the SDK", took[SMALL], "s"),
        Figure(
            f"metagraph of {LARGE} uids, read by the SDK",
            took[LARGE],
            "s",
            baseline=scaled,
            goal=MOST_GROWTH,
            of="ratio",
        ),
    ]


async def _read_s(net: LocalNet, netuid: int, size: int) -> float:
    """Median seconds of a read, each at a block of its own."""
    owner = _address(0)
    net.create_subnet(
        netuid,
        owner_coldkey=owner,
        owner_hotkey=owner,
        options=SubnetOptions(max_uids=size, tempo=10_000),
    )
    net.populate(netuid, [(_address(i), _address(i)) for i in range(1, size)])
    took = []
    async with bt.Client(net.url) as client:
        await client.block()
        for _ in range(READS):
            await asyncio.to_thread(net.advance)
            began = time.perf_counter()
            graph = await client.subnets.metagraph(netuid)
            took.append(time.perf_counter() - began)
            if len(graph) != size:
                raise RuntimeError(f"{len(graph)} of {size} neurons were read")
    return statistics.median(took)


def _blocks(folder: Path, quick: bool) -> list[Figure]:
    blocks, warm_up = (QUICK_BLOCKS, QUICK_WARM_UP) if quick else (BLOCKS, WARM_UP)
    options = SubnetOptions(tempo=20, max_uids=SMALL)
    with LocalNet(state=folder / "blocks.sqlite", netuid=2, options=options, block_time_s=0.0) as net:
        net.populate(2, [(_address(i), _address(i)) for i in range(1, SMALL)])
        node = psutil.Process(net.pid)
        net.advance(warm_up)
        before = node.memory_info().rss
        began = time.perf_counter()
        net.advance(blocks)
        rate = blocks / (time.perf_counter() - began)
        after = node.memory_info().rss
    return [
        Figure(
            f"blocks of a chain with {SMALL} uids and an epoch every 20",
            rate,
            "blocks/s",
            goal=LEAST_BLOCKS_A_SECOND,
            at_most=False,
        ),
        Figure(
            f"memory of the node after {blocks} more blocks",
            after / 2**20,
            "MiB",
            baseline=before / 2**20,
            goal=MOST_MEMORY,
            of="ratio",
        ),
    ]


def _address(number: int) -> str:
    return str(bittensor_core.ss58_encode(number.to_bytes(32, "little")))


if __name__ == "__main__":
    main(measure)
