"""A validator collects from miners' nodes what they have committed to, some at a time.

Whom to ask is read from the chain: a hotkey with an endpoint and a commitment whose source is not here yet.
What a node sends goes the way of a submission: screened, compared, cooled down. A node that hangs, sends too
much, or another source than it committed to, costs nothing but its own turn, and makes nobody wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import httpx
from sqlalchemy.exc import SQLAlchemyError

from arena import collected
from arena.collected import Attempt
from arena.rules import Rules
from arena.screening import Refused, ScreeningUnavailable
from arena.submissions import Submissions
from neurons.chain_types import ChainUnavailable, Commitment, Endpoint, Subnet
from neurons.fetching import FetchFailed, fetch
from neurons.mining.door import NAME_HEADER, SOURCE_PATH
from neurons.signing import HotkeyAuth
from neurons.wallets import Wallet, is_local
from storage.database import Database

_log = logging.getLogger(__name__)

AT_ONCE = 8
DEADLINE_S = 30.0
EVERY_S = 10.0
_METAGRAPH_S = 5.0
_SHA256_BYTES = 32
_DOWN = (ChainUnavailable, SQLAlchemyError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class _Visit:
    """One node to ask."""

    hotkey: str
    endpoint: Endpoint
    commitment: Commitment


class Collector:
    """Collects sources for one validator. `clock` gives aware UTC datetimes."""

    def __init__(
        self,
        database: Database,
        rules: Rules,
        chain: Subnet,
        wallet: Wallet,
        submissions: Submissions,
        clock: Callable[[], datetime],
        *,
        deadline_s: float = DEADLINE_S,
        at_once: int = AT_ONCE,
    ) -> None:
        self._database = database
        self._rules = rules
        self._chain = chain
        self._wallet = wallet
        self._submissions = submissions
        self._clock = clock
        self._deadline_s = deadline_s
        self._at_once = at_once
        self._local = is_local(chain.network)

    async def run(self, every_s: float = EVERY_S) -> None:
        """Make a round every `every_s`, until cancelled."""
        while True:
            try:
                await self.round()
            except _DOWN as error:
                _log.warning("nothing can be collected now: %s", error)
            await asyncio.sleep(every_s)

    async def round(self) -> dict[str, Attempt]:
        """Ask every node that is to be asked now, once; what became of each, by hotkey."""
        visits = await self._visits()
        turns = asyncio.Semaphore(self._at_once)
        ended: dict[str, Attempt] = {}

        async def one(visit: _Visit) -> None:
            async with turns:
                ended[visit.hotkey] = await self._visit(visit)

        async with asyncio.TaskGroup() as group:
            for visit in visits:
                group.create_task(one(visit))
        return ended

    async def _visits(self) -> list[_Visit]:
        graph = await self._chain.metagraph(fresh_s=_METAGRAPH_S)
        own = self._wallet.hotkey.ss58_address
        nodes = {n.hotkey: n.endpoint for n in graph.neurons if n.endpoint is not None and n.hotkey != own}
        if not nodes:
            return []
        commitments = {
            hotkey: commitment
            for hotkey, commitment in (await self._chain.commitments()).items()
            if hotkey in nodes and len(commitment.content) == _SHA256_BYTES
        }
        async with self._database.session() as session:
            hashes = {hotkey: c.content.hex() for hotkey, c in commitments.items()}
            chosen = await collected.wanted(session, hashes, self._clock())
        return [_Visit(hotkey, nodes[hotkey], commitments[hotkey]) for hotkey in sorted(chosen)]

    async def _visit(self, visit: _Visit) -> Attempt:
        """One node's turn. Only what is down on our side escapes into the log, and leaves no record."""
        digest = visit.commitment.content.hex()
        attempt = await self._attempt(visit, digest)
        try:
            async with self._database.session() as session:
                await collected.note(
                    session, hotkey=visit.hotkey, source_sha256=digest, attempt=attempt, now=self._clock()
                )
        except _DOWN as error:
            _log.warning("no record can be kept of collecting from %s: %s", visit.hotkey, error)
        _log.info("collecting from %s at %s: %s", visit.hotkey, visit.endpoint.url, attempt.code)
        return attempt

    async def _attempt(self, visit: _Visit, digest: str) -> Attempt:
        auth: httpx.Auth = HotkeyAuth(self._wallet, visit.hotkey)
        try:
            fetched = await fetch(
                visit.endpoint,
                SOURCE_PATH,
                auth=auth,
                most_bytes=self._rules.source_bytes,
                deadline_s=self._deadline_s,
                local=self._local,
            )
        except FetchFailed as error:
            return Attempt(error.code, str(error), final=False)
        found = hashlib.sha256(fetched.body).hexdigest()
        if found != digest:
            return Attempt("wrong_hash", f"the node sent {found}, and has committed to {digest}", final=False)
        try:
            accepted = await self._submissions.accept(
                source=fetched.body,
                hotkey=visit.hotkey,
                name=fetched.headers.get(NAME_HEADER.lower(), ""),
                committed=(visit.commitment.block, digest),
            )
        except Refused as refused:
            return collected.refusal(refused)
        except (ScreeningUnavailable, *_DOWN) as error:
            _log.warning("what %s sent cannot be taken now: %s", visit.hotkey, error)
            return Attempt("unavailable", "this validator could not look at it; it asks again", final=False)
        return Attempt("collected", f"taken as {accepted.submission_id}", True, accepted.submission_id)
