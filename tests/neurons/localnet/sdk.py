"""The SDK's own client, bare, for tests: as unmodified as it comes, but for the way it is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import bittensor as bt

from neurons.chain_link import put_away

DEADLINE_S = 60.0


@contextlib.asynccontextmanager
async def sdk_client(url: str) -> AsyncIterator[Any]:
    """A connected client. Its own closing can wait for ever on Python 3.11, so it is closed as ours are."""
    client = bt.Client(url)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await client.connect()
            yield client
    finally:
        await put_away(client)
