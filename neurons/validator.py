"""The validator: the parts put together, for `arena validator run` and for the demo alike.

It holds no state of its own. The race lives in the database, the weights on the chain; a validator that is
killed and started again goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

from arena.api.app import create_app
from arena.paying import OwnKeys
from arena.player import SandboxedPlayer
from arena.races import OVER, RaceEngine
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Sandbox
from arena.screening import Screener
from arena.sealing import Announcement
from arena.submissions import Submissions
from arena.worker import Worker
from distill.filters import FilterConfig, accepts
from judge.grounded import GroundedJudge
from judge.judgement import Judge
from judge.worker import JudgeWorker, judge_pending
from neurons.chain_types import ChainUnavailable, Endpoint, Subnet, WeightReceipt
from neurons.collecting import DEADLINE_S, Collector
from neurons.mining.validators import permitted
from neurons.payments import Payments
from neurons.peers import Peers
from neurons.supervision import single_failure
from neurons.wallets import Wallet
from neurons.watching import STALLED_AFTER_S, HeadWatch
from problems.environment import Environment
from storage.database import Database
from storage.tables import Race

_log = logging.getLogger(__name__)

_JUDGE_BATCH = 32
_RETRY_S = 5.0


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a validator is made of. `environments` is by suite id."""

    database: Database
    rules: Rules
    environments: Mapping[str, Environment]
    sandbox: Sandbox
    upstream: Upstream
    chain: Subnet
    wallet: Wallet
    socket_root: Path
    slots: int
    first_slot: int = 0
    judge: Judge = field(default_factory=GroundedJudge)
    own_keys: OwnKeys | None = None
    sealing: Announcement | None = None
    """What opens the model keys of miners that pay themselves, and what they seal them to."""
    operators: tuple[str, ...] = ()
    """Hotkeys that may pause, void and re-judge races."""
    stalled_after_s: float = STALLED_AFTER_S
    """Without a new block for this long, the program ends for its supervisor."""


class Validator:
    """Takes submissions, plays episodes, has them judged, moves races forward, and sets weights."""

    def __init__(self, parts: Parts, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._parts = parts
        self._clock = clock
        self._filters = FilterConfig()
        self._screener = Screener(parts.sandbox, parts.rules)
        self.engine = RaceEngine(
            parts.database,
            parts.rules,
            clock=clock,
            blocks=_Blocks(parts.chain),
            judge=parts.judge.name,
            rubric=parts.judge.rubric,
            judge_pending=self._judge_some,
            accepts_into_corpus=lambda trace: accepts(trace, self._filters),
            others=Peers(parts.chain, parts.wallet),
        )
        self.payments = Payments(parts.database, parts.chain, parts.wallet)
        self.heads = HeadWatch(parts.chain, stalled_after_s=parts.stalled_after_s)

    @property
    def hotkey(self) -> str:
        """Our own hotkey: the receiver of every signed request."""
        return self._parts.wallet.hotkey.ss58_address

    @property
    def together(self) -> bool:
        """Whether races are decided with the other validators."""
        return self._parts.rules.consensus == "median"

    @property
    def database(self) -> Database:
        """Where everything is kept."""
        return self._parts.database

    async def announce(self, endpoint: Endpoint) -> None:
        """Write into the metagraph where we answer. Raises ChainError."""
        await self._parts.chain.serve(self._parts.wallet, endpoint)

    def app(self) -> FastAPI:
        """The HTTP API, bound to this validator's chain."""
        chain = self._parts.chain

        async def registered(hotkey: str) -> bool:
            return await chain.registered(hotkey) is not None

        async def commitment(hotkey: str) -> tuple[int, str] | None:
            found = await chain.commitment(hotkey)
            return None if found is None else (found.block, found.content.hex())

        return create_app(
            self._parts.database,
            self._parts.rules,
            validator_hotkey=self.hotkey,
            registered=registered,
            commitment=commitment,
            screener=self._screener,
            clock=self._clock,
            operators=self._parts.operators,
            sealing=self._parts.sealing,
            permitted=lambda hotkey: permitted(chain, hotkey),
        )

    def collector(self, *, deadline_s: float = DEADLINE_S) -> Collector:
        """Collects what miners' nodes have committed to."""
        parts = self._parts
        submissions = Submissions(parts.database, parts.rules, self._clock, self._screener)
        return Collector(
            parts.database,
            parts.rules,
            parts.chain,
            parts.wallet,
            submissions,
            self._clock,
            deadline_s=deadline_s,
        )

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Play and judge in the background while the context is open.

        Raises what broke, in the context or beside it, as it is.
        """
        stop = asyncio.Event()
        with single_failure():
            async with asyncio.TaskGroup() as group:
                group.create_task(self._worker().run(stop))
                group.create_task(JudgeWorker(self._parts.database, self._parts.judge).run(stop))
                try:
                    yield
                finally:
                    stop.set()

    async def play(self) -> None:
        """Play episodes until cancelled; what is in hand then is given back, unplayed."""
        await self._worker().run(asyncio.Event())

    async def judge(self) -> None:
        """Judge traces until cancelled."""
        await JudgeWorker(self._parts.database, self._parts.judge).run(asyncio.Event())

    async def drive(
        self,
        race_id: UUID,
        *,
        every_s: float = 0.25,
        watch: Callable[[str], Awaitable[None]] | None = None,
    ) -> str:
        """Move a race forward until it is over, looking every `every_s`; returns `settled` or `void`.

        `watch` is told the state after each look. What is down for a while (chain, database) is waited for.
        """
        while True:
            try:
                state = await self.engine.advance(race_id)
            except (ChainUnavailable, SQLAlchemyError, OSError, TimeoutError) as error:
                _log.warning("the race cannot go on now, trying again in %.0f s: %s", _RETRY_S, error)
                await asyncio.sleep(_RETRY_S)
                continue
            if watch is not None:
                await watch(state)
            if state in OVER:
                return state
            await asyncio.sleep(every_s)

    async def race(self, race_id: UUID) -> Race:
        """A race's row, as it is now."""
        async with self._parts.database.session() as session:
            return await session.get_one(Race, race_id)

    async def pay(self, race_id: UUID) -> WeightReceipt:
        """Have the weights of a settled race stand on the chain. Raises NotSettled, ChainError."""
        return await self.payments.pay(race_id)

    def _worker(self) -> Worker:
        parts = self._parts
        return Worker(
            parts.database,
            SandboxedPlayer(
                parts.environments,
                parts.sandbox,
                parts.upstream,
                socket_root=parts.socket_root,
                first_slot=parts.first_slot,
                own_keys=parts.own_keys,
            ),
            parts.rules,
            name=f"{socket.gethostname()}:{os.getpid()}",
            slots=parts.slots,
            clock=self._clock,
            suites=frozenset(parts.environments),
        )

    async def _judge_some(self) -> object:
        return await judge_pending(self._parts.database, self._parts.judge, limit=_JUDGE_BATCH)


class _Blocks:
    """The chain's blocks as a race wants them."""

    def __init__(self, chain: Subnet) -> None:
        self._chain = chain

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str] | None:
        try:
            block = await self._chain.first_block_at(when)
        except ChainUnavailable as error:
            _log.warning("%s", error)
            return None
        return None if block is None else (block.number, block.hash)


if __name__ == "__main__":  # `python neurons/validator.py` is `arena validator run`
    import sys

    from neurons.cli import main

    sys.argv = ["arena", "validator", "run", *sys.argv[1:]]
    main()
