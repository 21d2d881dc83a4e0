"""The node's work: keep a commitment to the agent's file on chain, our endpoint in the metagraph, and ask the
validators how we stand.

What is served is always what the chain shows, and never more than once in a cooldown something new: a file
that changes sooner waits, because validators would take its predecessor and refuse it.
"""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neurons.chain_types import NOT_REGISTERED, ChainRefused, ChainUnavailable, Endpoint, Subnet
from neurons.miner import commit
from neurons.mining.door import Agent, Shelf
from neurons.mining.validators import Asking, Seen, digest_of, of_all, validators
from neurons.wallets import Wallet, is_local

_log = logging.getLogger(__name__)

LOOK_S = 1.0
STANDING_EVERY_S = 30.0
_PAUSE_S = 15.0
_ANNOUNCE_EVERY_S = 600.0


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the node tells: `event` is a word, and `values` go with it."""

    event: str
    values: dict[str, Any] = field(default_factory=dict)


class Node:
    """One miner's node. `most_bytes` is the size of a source that validators take; `tell` is told what
    happens; `clock` gives aware UTC datetimes.
    """

    def __init__(
        self,
        chain: Subnet,
        wallet: Wallet,
        agent: Path,
        name: str,
        *,
        most_bytes: int,
        tell: Callable[[Told], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._chain = chain
        self._wallet = wallet
        self._file = agent
        self._name = name
        self._most_bytes = most_bytes
        self._tell = tell
        self._clock = clock
        self._asking = Asking(wallet, local=is_local(chain.network))
        self._looked_at: tuple[int, int] | None = None
        self._source: bytes | None = None
        self._unusable: str | None = None
        self._waits_for: datetime | None = None
        self.shelf = Shelf()

    async def keep_committed(self) -> None:
        """Commit to the file whenever it has changed and may be, until cancelled."""
        while True:
            pause_s = LOOK_S
            try:
                await self.look()
            except (ChainRefused, ChainUnavailable) as error:
                if isinstance(error, ChainRefused) and error.code == NOT_REGISTERED:
                    raise
                _log.warning("cannot commit now, trying again in %.0f s: %s", _PAUSE_S, error)
                pause_s = _PAUSE_S
            await asyncio.sleep(pause_s)

    async def look(self) -> None:
        """Look at the file once, and do what it calls for. Raises ChainError."""
        source = await asyncio.to_thread(self._read)
        if source is None:
            return
        digest = digest_of(source)
        if self.shelf.agent is not None and self.shelf.agent.sha256 == digest:
            return
        standing = await self._chain.commitment(self._wallet.hotkey.ss58_address)
        if standing is None or standing.content.hex() != digest:
            until = await self._cooldown()
            if until is not None and self._clock() < until:
                if self._waits_for != until:
                    self._waits_for = until
                    self._tell(Told("waiting", {"sha256": digest, "until": until.isoformat()}))
                return
        block = await commit(self._chain, self._wallet, source)
        self._waits_for = None
        self.shelf.agent = Agent(source, digest, self._name)
        self._tell(Told("committed", {"sha256": digest, "block": block}))

    def _read(self) -> bytes | None:
        """The file, if it can be an agent's and is not being written; None, and a word about it, otherwise.

        It has to be found the same twice: an editor may still be at it.
        """
        try:
            found = self._file.stat()
            before, self._looked_at = self._looked_at, (found.st_mtime_ns, found.st_size)
            if before != self._looked_at:
                self._source = self._unusable = None
                return None
            if self._source is None and self._unusable is None:
                self._source = self._parsed(found.st_size)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            if self._unusable != str(error):
                self._unusable = str(error)
                self._tell(Told("unusable", {"file": str(self._file), "why": str(error)}))
            return None
        return self._source

    def _parsed(self, size: int) -> bytes:
        if size > self._most_bytes:
            raise ValueError(f"it has {size} bytes, and validators take {self._most_bytes}")
        source = self._file.read_bytes()
        ast.parse(source)
        return source

    def note_served(self, validator: str) -> None:
        """A validator was given the source."""
        self._tell(Told("collected", {"validator": validator}))

    async def _cooldown(self) -> datetime | None:
        """Until when the last validator to take something of ours makes us wait."""
        seen = await self.standing()
        return max((s.may_submit_at for s in seen if s.may_submit_at is not None), default=None)

    async def standing(self) -> list[Seen]:
        """What every validator says of the source that we serve. Raises ChainError."""
        known = await validators(self._chain, own=self._wallet.hotkey.ss58_address)
        digest = "" if self.shelf.agent is None else self.shelf.agent.sha256
        return await of_all(known, lambda validator: self._asking.seen(validator, digest))

    async def keep_telling(self, every_s: float = STANDING_EVERY_S) -> None:
        """Ask the validators every `every_s`, and tell when they say something else, until cancelled."""
        before: list[Seen] | None = None
        while True:
            try:
                found = await self.standing()
                if found != before:
                    before = found
                    self._tell(Told("standing", {"validators": found}))
            except (ChainRefused, ChainUnavailable) as error:
                _log.warning("cannot look for validators now: %s", error)
            await asyncio.sleep(every_s)

    async def keep_announced(self, endpoint: Endpoint | None) -> None:
        """Keep our endpoint in the metagraph, until cancelled: a hotkey that registers anew loses it."""
        if endpoint is None:
            _log.warning("no endpoint is announced: give --axon.external_ip for validators to find this node")
            await asyncio.Event().wait()
            return
        while True:
            pause_s = _ANNOUNCE_EVERY_S
            try:
                await self._chain.serve(self._wallet, endpoint)
                self._tell(Told("announced", {"url": endpoint.url}))
            except (ChainRefused, ChainUnavailable) as error:
                if isinstance(error, ChainRefused) and error.code == NOT_REGISTERED:
                    raise
                _log.warning("our endpoint cannot be announced now: %s", error)
                pause_s = _PAUSE_S
            await asyncio.sleep(pause_s)
