"""What a validator watches beside its work: that blocks come, and that the database answers.

Either may be down for a while. When it is down for too long, the program ends for its supervisor to start it
anew: a process whose connections hang in a way that nobody foresaw is mended by nothing else.
"""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from neurons.chain import ChainError, ChainStalled, Subnet
from storage.database import Database

_log = logging.getLogger(__name__)

STALLED_AFTER_S = 600.0
"""Fifty blocks of mainnet."""
_SPEC_EVERY_S = 60.0
_DATABASE_EVERY_S = 10.0
_DATABASE_DEADLINE_S = 10.0
LOST_AFTER_S = 300.0


class DatabaseLost(RuntimeError):
    """The database has not answered for too long."""


class HeadWatch:
    """The newest block, kept up to date over one subscription, and when it came."""

    def __init__(self, chain: Subnet, *, stalled_after_s: float = STALLED_AFTER_S) -> None:
        self._chain = chain
        self._stalled_after_s = stalled_after_s
        self.newest: int | None = None
        self.seen_at: float | None = None
        """By the event loop's clock."""

    async def run(self) -> None:
        """Watch until cancelled. Raises ChainStalled when no new block comes for too long."""
        loop = asyncio.get_running_loop()
        look_at = loop.time()
        heads = aiter(self._chain.heads())
        while True:
            try:
                async with asyncio.timeout(self._stalled_after_s):
                    self.newest = await anext(heads)
            except TimeoutError:
                raise ChainStalled(
                    f"no new block on {self._chain.network} for {self._stalled_after_s:.0f} s"
                    + ("" if self.newest is None else f" after block {self.newest}")
                    + "; ending, to be started anew with a new connection. If this repeats, check the "
                    "endpoint or set another --subtensor.chain_endpoint"
                ) from None
            self.seen_at = loop.time()
            if self.seen_at >= look_at:
                look_at = self.seen_at + _SPEC_EVERY_S
                try:
                    await self._chain.spec_version()  # which says so when it changed
                except ChainError as error:
                    _log.warning("%s", error)


async def watch_database(
    database: Database, *, lost_after_s: float = LOST_AFTER_S, every_s: float = _DATABASE_EVERY_S
) -> None:
    """Ask the database for a sign of life until cancelled. Raises DatabaseLost."""
    loop = asyncio.get_running_loop()
    answered = loop.time()
    while True:
        try:
            async with asyncio.timeout(_DATABASE_DEADLINE_S), database.session() as session:
                await session.execute(text("SELECT 1"))
            answered = loop.time()
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if loop.time() - answered >= lost_after_s:
                raise DatabaseLost(
                    f"the database has not answered for {loop.time() - answered:.0f} s ({error}); ending, to "
                    "be started anew. Check that PostgreSQL runs and has disk space"
                ) from error
        await asyncio.sleep(every_s)
