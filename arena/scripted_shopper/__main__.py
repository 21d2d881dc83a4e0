"""`python -m arena.scripted_shopper`: serve the scripted shopper on this machine until the parent dies.

The port file is written, whole, once connections are taken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from pathlib import Path

import uvicorn

from arena.scripted_shopper.server import create_app

PARENT_CHECK_S = 0.5


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m arena.scripted_shopper", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="where to write the port once it is open")
    parser.add_argument(
        "--parent", type=int, default=os.getppid(), help="stop when this is no longer the parent process"
    )
    options = parser.parse_args()
    listening = socket.create_server(("127.0.0.1", options.port), backlog=256)
    if options.port_file is not None:
        partial = options.port_file.with_suffix(".partial")
        partial.write_text(str(listening.getsockname()[1]))
        partial.replace(options.port_file)
    asyncio.run(_serve(listening, options.parent))


async def _serve(listening: socket.socket, parent: int) -> None:
    config = uvicorn.Config(
        create_app(), log_level="warning", access_log=False, timeout_graceful_shutdown=2, lifespan="off"
    )
    server = uvicorn.Server(config)
    watch = asyncio.create_task(_stop_without_parent(server, parent))
    try:
        await server.serve(sockets=[listening])
    finally:
        watch.cancel()


async def _stop_without_parent(server: uvicorn.Server, parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 - the system sends no event for this
        await asyncio.sleep(PARENT_CHECK_S)
    server.should_exit = True


if __name__ == "__main__":
    main()
