"""The weights of the last settled race, kept on the chain.

Whether they stand is asked of the chain, not of our own record: what was lost, replaced or never opened is
sent again, and what stands is not, whatever this process remembers. When they are sent is a matter of blocks
(`neurons.weights.due`), not of a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from neurons.chain_types import (
    NOT_REGISTERED,
    RATE_LIMITED,
    SUBNET_NOT_EXISTS,
    ChainError,
    ChainRefused,
    ChainUnavailable,
    Standing,
    Subnet,
    WeightReceipt,
)
from neurons.wallets import Wallet
from neurons.watching import HeadWatch
from neurons.weights import KeepLast, due, max_upscaled, next_look, overdue, stands, what_to_say
from storage.database import Database
from storage.tables import Race, WeightSetting

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_PAUSE_S = 30.0
_FATE_UNKNOWN = "sent, and not known to have arrived"
"""The error of a setting that is under way; it stays when the process is killed meanwhile."""
_DOWN = (SQLAlchemyError, OSError, TimeoutError)


class NotSettled(RuntimeError):
    """Weights were asked for of a race that has not settled."""


@dataclass(frozen=True, slots=True)
class WeightStatus:
    """What there is to tell of the weights, for people and alarms. Blocks are counted at `block`."""

    block: int
    blocks_since_update: int
    activity_cutoff: int
    stand: bool
    sealed: bool
    overdue: bool
    next_setting_block: int


@dataclass(frozen=True, slots=True)
class _LastSent:
    """What we sent last, by our own record."""

    row: dict[int, int] | None = None
    block_hash: str | None = None


class Payments:
    """Sets the weights of settled races."""

    def __init__(self, database: Database, chain: Subnet, wallet: Wallet) -> None:
        self._database = database
        self._chain = chain
        self._wallet = wallet
        self.status: WeightStatus | None = None
        """As of the last look; None before it."""
        self.last_error: str | None = None
        """Why the last look, or the last setting, failed; None when it did not."""

    async def last_settled(self) -> UUID | None:
        """The newest race that settled: whose weights the chain should show."""
        async with self._database.session() as session:
            return await session.scalar(
                select(Race.id).where(Race.state == "settled").order_by(Race.number.desc()).limit(1)
            )

    async def pay(self, race_id: UUID) -> WeightReceipt:
        """Have the weights of a settled race stand on the chain, now; what stands is not sent again.

        Raises NotSettled, ChainError; ChainRefused ("nothing_to_say") where the last weights are to be kept.
        """
        said = await self._wanted(race_id)
        if isinstance(said, KeepLast):
            raise ChainRefused(
                f"the weights on the chain are kept as they are: {said.reason}",
                code="nothing_to_say",
                remediation="nothing needs to be done, unless this surprises you",
            )
        standing, last = await self._standing()
        if stands(standing, said, last_sent=last.row):
            return _standing_receipt(said, standing, last)
        return await self._send(race_id, said)

    async def keep(self, heads: HeadWatch) -> None:
        """Keep the weights on the chain those of the last race that settled, until cancelled.

        Raises what of the chain no waiting mends: that we are not registered, that the SDK cannot read it.
        """
        paid: UUID | None = None
        look_at = 0
        while True:
            pause_s = _LOOK_S
            try:
                race_id = await self.last_settled()
                if race_id is not None and (race_id != paid or (heads.newest or 0) >= look_at):
                    look_at = await self._turn(race_id)
                    paid = race_id
                self.last_error = None
            except ChainRefused as error:
                pause_s, look_at = self._refused(error, look_at)
            except (ChainUnavailable, *_DOWN) as error:
                self.last_error = str(error)
                _log.warning("weights cannot be set now, trying again in %.0f s: %s", _PAUSE_S, error)
                pause_s = _PAUSE_S
            await asyncio.sleep(pause_s)

    def _refused(self, error: ChainRefused, look_at: int) -> tuple[float, int]:
        """How long to pause, and from which block on to look. Raises it when only people can help."""
        if error.code == RATE_LIMITED:
            _log.info("weights wait for their rate limit: %s", error)
            return _LOOK_S, error.retry_at_block or look_at
        self.last_error = str(error)
        if error.code in (NOT_REGISTERED, SUBNET_NOT_EXISTS):
            raise error
        _log.error("weights cannot be set, trying again in %.0f s: %s", _PAUSE_S, error)
        return _PAUSE_S, look_at

    async def _turn(self, race_id: UUID) -> int:
        """Look, and send what is due; returns the block from which on to look again."""
        said = await self._wanted(race_id)
        standing, last = await self._standing()
        if overdue(standing):
            _log.error(
                "weights were last set %d blocks ago; after %d the chain takes this validator for inactive",
                *(standing.blocks_since_update, standing.activity_cutoff),
            )
        if isinstance(said, KeepLast):
            self._note(standing, stand=False, due_at=next_look(standing))
            _log.warning("the weights on the chain are kept as they are: %s", said.reason)
            return next_look(standing)
        if self._note_due(standing, said, last) <= standing.block:
            receipt = await self._send(race_id, said)
            standing, last = await self._standing()
            self._note_due(standing, said, last)
            if receipt.reveal_round is not None:
                state = f"are sealed until drand round {receipt.reveal_round}"
            else:
                state = "stand on the chain" if receipt.confirmed else "are sent, and not visible yet"
            _log.info("the weights of race %s %s", race_id, state)
        return min(self._note_due(standing, said, last), next_look(standing))

    def _note_due(self, standing: Standing, row: Mapping[int, int], last: _LastSent) -> int:
        when = due(standing, row, last_sent=last.row).block
        self._note(standing, stand=stands(standing, row, last_sent=last.row), due_at=when)
        return when

    async def _wanted(self, race_id: UUID) -> dict[int, int] | KeepLast:
        """The row that should stand, as the chain stores it."""
        async with self._database.session() as session:
            settlement = (await session.get_one(Race, race_id)).settlement
        if settlement is None:
            raise NotSettled(f"race {race_id} has not settled: it has no weights")
        graph = await self._chain.metagraph()
        said = what_to_say(settlement, graph, own=self._wallet.hotkey.ss58_address)
        if isinstance(said, KeepLast):
            return said
        for hotkey in said.missing:
            _log.warning("hotkey %s has left the subnet; its share is burned", hotkey)
        return max_upscaled(said.weights)

    async def _standing(self) -> tuple[Standing, _LastSent]:
        standing = await self._chain.standing(self._wallet.hotkey.ss58_address)
        async with self._database.session() as session:
            last = await session.scalar(
                select(WeightSetting)
                .where(WeightSetting.netuid == self._chain.netuid)
                .where(WeightSetting.error.is_(None) | (WeightSetting.error == _FATE_UNKNOWN))
                .order_by(WeightSetting.set_at.desc())
                .limit(1)
            )
        return standing, _LastSent() if last is None else _LastSent(_uids(last.sent), last.block_hash)

    async def _send(self, race_id: UUID, row: Mapping[int, int]) -> WeightReceipt:
        """Send, read back, and keep a record of it: from before, so that a killed process leaves one."""
        setting = WeightSetting(
            race_id=race_id,
            netuid=self._chain.netuid,
            sent=_json(row),
            confirmed=False,
            error=_FATE_UNKNOWN,
        )
        async with self._database.session() as session:
            session.add(setting)
            await session.flush()
            setting_id = setting.id
        try:
            receipt = await self._chain.set_weights(self._wallet, row)
        except ChainError as error:
            await self._record(setting_id, error=str(error))
            raise
        await self._record(
            setting_id,
            sent=_json(receipt.sent),
            read_back=_json(receipt.read_back),
            confirmed=receipt.confirmed,
            block_hash=receipt.block_hash,
            error=None,
        )
        return receipt

    async def _record(self, setting_id: UUID, **columns: Any) -> None:
        async with self._database.session() as session:
            setting = await session.get_one(WeightSetting, setting_id)
            for name, value in columns.items():
                setattr(setting, name, value)

    def _note(self, standing: Standing, *, stand: bool, due_at: int) -> None:
        self.status = WeightStatus(
            block=standing.block,
            blocks_since_update=standing.blocks_since_update,
            activity_cutoff=standing.activity_cutoff,
            stand=stand,
            sealed=bool(standing.sealed),
            overdue=overdue(standing),
            next_setting_block=due_at,
        )


def _standing_receipt(row: Mapping[int, int], standing: Standing, last: _LastSent) -> WeightReceipt:
    return WeightReceipt(
        dict(row),
        standing.row,
        confirmed=standing.row == row and not standing.sealed,
        block_hash=last.block_hash if last.row == row else None,
        reveal_round=max((sealed.reveal_round for sealed in standing.sealed), default=None),
    )


def _json(weights: Mapping[int, int]) -> dict[str, int]:
    return {str(uid): units for uid, units in weights.items()}


def _uids(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(uid): units for uid, units in stored.items()}
