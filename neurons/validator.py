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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from fastapi import FastAPI
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from arena.api.app import create_app
from arena.player import SandboxedPlayer
from arena.races import OVER, RaceEngine
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Sandbox
from arena.worker import Worker
from distill.filters import FilterConfig, accepts
from judge.grounded import GroundedJudge
from judge.judgement import Judge
from judge.worker import JudgeWorker, judge_pending
from neurons.chain import Chain, ChainError, ChainUnavailable, WeightReceipt
from neurons.wallets import Wallet
from neurons.weights import weights_by_uid
from problems.environment import Environment
from storage.database import Database
from storage.tables import Race, WeightSetting

_log = logging.getLogger(__name__)

_JUDGE_BATCH = 32
_RETRY_S = 5.0
_SEALED_AT_MOST = timedelta(hours=3)
"""Weights that were sent are not sent again within this time: commit-reveal keeps them sealed for a while."""


class NotSettled(RuntimeError):
    """Weights were asked for of a race that has not settled."""


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
    chain: Chain
    wallet: Wallet
    socket_root: Path
    slots: int
    first_slot: int = 0
    judge: Judge = field(default_factory=GroundedJudge)
    operators: tuple[str, ...] = ()
    """Hotkeys that may pause, void and re-judge races."""


class Validator:
    """Takes submissions, plays episodes, has them judged, moves races forward, and sets weights."""

    def __init__(self, parts: Parts, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._parts = parts
        self._clock = clock
        self._filters = FilterConfig()
        self.engine = RaceEngine(
            parts.database,
            parts.rules,
            clock=clock,
            blocks=_Blocks(parts.chain),
            judge=parts.judge.name,
            rubric=parts.judge.rubric,
            judge_pending=self._judge_some,
            accepts_into_corpus=lambda trace: accepts(trace, self._filters),
        )

    @property
    def hotkey(self) -> str:
        """Our own hotkey: the receiver of every signed request."""
        return self._parts.wallet.hotkey.ss58_address

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
            clock=self._clock,
            operators=self._parts.operators,
        )

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Play and judge in the background while the context is open.

        Raises what broke, in the context or beside it, as it is.
        """
        stop = asyncio.Event()
        worker = Worker(
            self._parts.database,
            SandboxedPlayer(
                self._parts.environments,
                self._parts.sandbox,
                self._parts.upstream,
                socket_root=self._parts.socket_root,
                first_slot=self._parts.first_slot,
            ),
            self._parts.rules,
            name=f"{socket.gethostname()}:{os.getpid()}",
            slots=self._parts.slots,
            clock=self._clock,
            suites=frozenset(self._parts.environments),
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run(stop))
                group.create_task(JudgeWorker(self._parts.database, self._parts.judge).run(stop))
                try:
                    yield
                finally:
                    stop.set()
        except BaseExceptionGroup as broken:
            if len(broken.exceptions) > 1:
                raise
            raise broken.exceptions[0] from None

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
            except (ChainError, SQLAlchemyError, OSError, TimeoutError) as error:
                _log.warning("the race cannot go on now, trying again in %.0f s: %s", _RETRY_S, error)
                await asyncio.sleep(_RETRY_S)
                continue
            if watch is not None:
                await watch(state)
            if state in OVER:
                return state
            await asyncio.sleep(every_s)

    async def last_settled(self) -> UUID | None:
        """The newest race that settled: whose weights the chain should show."""
        async with self._parts.database.session() as session:
            return await session.scalar(
                select(Race.id).where(Race.state == "settled").order_by(Race.number.desc()).limit(1)
            )

    async def race(self, race_id: UUID) -> Race:
        """A race's row, as it is now."""
        async with self._parts.database.session() as session:
            return await session.get_one(Race, race_id)

    async def pay(self, race_id: UUID, *, fresh_for: timedelta | None = None) -> WeightReceipt:
        """Set the weights of a settled race and read them back; what was confirmed once is not sent again,
        unless that was longer than `fresh_for` ago.

        Every try is stored. Raises NotSettled, ChainError.
        """
        database, chain = self._parts.database, self._parts.chain
        async with database.session() as session:
            race = await session.get_one(Race, race_id)
            settlement = race.settlement
            sent = await session.scalar(
                select(WeightSetting)
                .where(WeightSetting.race_id == race_id, WeightSetting.error.is_(None))
                .order_by(WeightSetting.confirmed.desc(), WeightSetting.set_at.desc())
                .limit(1)
            )
        if settlement is None:
            raise NotSettled(f"race {race_id} has not settled: it has no weights")
        if sent is not None:
            age = utc_now() - sent.set_at
            if sent.confirmed and (fresh_for is None or age < fresh_for):
                return _receipt(sent)
            if not sent.confirmed and age < _SEALED_AT_MOST:
                return await self._look_again(sent.id)
        payout = settlement["payout"]
        metagraph = await chain.metagraph()
        mapped = weights_by_uid(
            payout["units"], burn=payout["burn"], uids=metagraph.uids(), burn_uid=metagraph.burn_uid()
        )
        for hotkey in mapped.missing:
            _log.warning("hotkey %s has left the subnet; its share is burned", hotkey)
        row = WeightSetting(race_id=race_id, netuid=chain.netuid, sent=_json(mapped.weights), confirmed=False)
        try:
            receipt = await chain.set_weights(self._parts.wallet, mapped.weights)
        except ChainError as error:
            row.error = str(error)
            raise
        else:
            row.sent, row.read_back = _json(receipt.sent), _json(receipt.read_back)
            row.confirmed, row.block_hash = receipt.confirmed, receipt.block_hash
            return receipt
        finally:
            async with database.session() as session:
                session.add(row)

    async def _look_again(self, setting_id: UUID) -> WeightReceipt:
        """Whether weights that were sent, but not confirmed, stand on the chain by now."""
        uid = await self._parts.chain.registered(self.hotkey)
        read_back = {} if uid is None else await self._parts.chain.weights(uid)
        async with self._parts.database.session() as session:
            setting = await session.get_one(WeightSetting, setting_id)
            setting.read_back = _json(read_back)
            setting.confirmed = read_back == _uids(setting.sent)
            return _receipt(setting)

    async def _judge_some(self) -> object:
        return await judge_pending(self._parts.database, self._parts.judge, limit=_JUDGE_BATCH)


class _Blocks:
    """The chain's blocks as a race wants them."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str] | None:
        try:
            block = await self._chain.first_block_at(when)
        except ChainUnavailable as error:
            _log.warning("%s", error)
            return None
        return None if block is None else (block.number, block.hash)


def _receipt(setting: WeightSetting) -> WeightReceipt:
    return WeightReceipt(
        _uids(setting.sent), _uids(setting.read_back or {}), setting.confirmed, setting.block_hash
    )


def _json(weights: Mapping[int, int]) -> dict[str, int]:
    return {str(uid): units for uid, units in weights.items()}


def _uids(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(uid): units for uid, units in stored.items()}
