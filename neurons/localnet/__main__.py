"""`python -m neurons.localnet`: run a local chain node in the foreground.

It prints one line, `ready ws://127.0.0.1:PORT`, once connections are accepted, and stops on SIGINT or
SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import secrets
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import bittensor_core

from neurons.localnet import metadata, subnet
from neurons.localnet.blocks import Blockchain
from neurons.localnet.codec import Codec
from neurons.localnet.rpc import HOST, Node
from neurons.localnet.state import Draft, Ledger, StateInUse
from neurons.localnet.subnet import SubnetOptions

_BEGINNING_MS = 1_767_225_600_000
"""2026-01-01, where the time of a seeded chain begins."""
_SLOT_S = 0.25


def main(argv: list[str] | None = None) -> int:
    """Run the node; 0 when it was told to stop, 1 when it could not start."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    try:
        codec = Codec(metadata.load())
        ledger = Ledger(options.state)
    except (metadata.MetadataUnavailable, StateInUse) as error:
        sys.stderr.write(f"{error}\n")
        return 1

    def genesis(state: Draft) -> None:
        for address, tao in options.fund:
            subnet.fund(state, address, tao)
        if options.netuid is not None:
            subnet.create(
                state,
                options.netuid,
                owner_coldkey=options.owner,
                owner_hotkey=options.owner,
                block=0,
                options=SubnetOptions(**{f.name: getattr(options, f.name) for f in fields(SubnetOptions)}),
            )

    clock = _BlockClock(options.block_time) if options.seed is not None else _wall_clock_ms
    try:
        chain = Blockchain(
            codec,
            ledger,
            clock_ms=clock,
            genesis=genesis,
            finality_lag=options.finality_lag,
            seed=options.seed if options.seed is not None else secrets.randbits(64),
        )
        if isinstance(clock, _BlockClock):
            clock.chain = chain
        node = Node(
            chain,
            block_time_s=options.block_time,
            faults_on=options.faults,
            parent_pid=options.parent_pid,
        )
        asyncio.run(_until_stopped(node, options.port, options.port_file))
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        ledger.close()
    return 0


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class _BlockClock:
    """Time by blocks, from a fixed moment."""

    def __init__(self, block_time_s: float) -> None:
        self._slot_ms = max(1, round(1000 * (block_time_s or _SLOT_S)))
        self.chain: Blockchain | None = None

    def __call__(self) -> int:
        number = 0 if self.chain is None else self.chain.head.number + 1
        return _BEGINNING_MS + number * self._slot_ms


async def _until_stopped(node: Node, port: int, port_file: Path | None) -> None:
    def ready(chosen: int) -> None:
        if port_file is not None:
            partial = port_file.with_name(port_file.name + ".partial")
            partial.write_text(f"{chosen}\n")
            partial.replace(port_file)
        sys.stdout.write(f"ready ws://{HOST}:{chosen}\n")
        sys.stdout.flush()

    running = asyncio.create_task(node.run(port, ready))
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running


def _parser() -> argparse.ArgumentParser:
    defaults = SubnetOptions()
    parser = argparse.ArgumentParser(prog="python -m neurons.localnet", description=__doc__)
    parser.add_argument("--state", type=Path, help="file the chain lives in; without it, in memory")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="file to write the port to")
    parser.add_argument("--netuid", type=int, help="create this subnet in the first block of a new chain")
    parser.add_argument("--owner", type=_owner, default="//Owner", help="its owner: key URI or SS58 address")
    parser.add_argument(
        "--block-time", type=float, default=0.25, help="seconds; 0: a block when there is work for one"
    )
    parser.add_argument(
        "--finality-lag", type=int, default=0, help="how many of the newest blocks are not final (0)"
    )
    parser.add_argument(
        "--seed", type=int, help="count time in blocks, so that the same calls make the same chain"
    )
    parser.add_argument("--faults", action="store_true", help="take orders to misbehave")
    for option in fields(SubnetOptions):
        flag, default = f"--{option.name.replace('_', '-')}", getattr(defaults, option.name)
        kind: dict[str, Any] = (
            {"action": argparse.BooleanOptionalAction}
            if isinstance(default, bool)
            else {"type": type(default)}
        )
        parser.add_argument(flag, **kind, default=default, help=f"of that subnet ({default})")
    parser.add_argument(
        "--fund",
        type=_funding,
        action="append",
        default=[],
        metavar="URI_OR_SS58=TAO",
        help="an account of a new chain; may be repeated",
    )
    parser.add_argument("--parent-pid", type=int, help="stop when this is no longer the parent process")
    return parser


def address(text: str) -> str:
    """The SS58 address of a key URI such as //Alice, or of itself. Raises ValueError."""
    if text.startswith("//"):
        return str(bittensor_core.Keypair.create_from_uri(text).ss58_address)
    try:
        bittensor_core.ss58_decode(text)
    except ValueError as error:
        raise ValueError(f"{text} is neither a key URI nor an SS58 address") from error
    return text


def _owner(text: str) -> str:
    try:
        return address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _funding(text: str) -> tuple[str, float]:
    account, _, tao = text.rpartition("=")
    try:
        return address(account), float(tao)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is not of the form URI_OR_SS58=TAO") from error


if __name__ == "__main__":
    raise SystemExit(main())
