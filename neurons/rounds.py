"""One race after another, and the weights of the last one on the chain: what a validator does all day.

The two do not wait for each other: while the chain refuses weights, or limits their rate, races go on, and
what was not paid before a crash is paid after it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from arena.races import EntryClosed
from neurons.chain import ChainError
from neurons.validator import Validator, utc_now

_log = logging.getLogger(__name__)

FRESH_FOR = timedelta(hours=8)
"""Weights are set again after this time even when no race has settled since: the chain takes a validator that
has set none for 5,000 blocks (17 hours) for inactive, and leaves it out of the consensus."""
_LOOK_S = 1.0
_ENTER_EVERY_S = 2.0
_PAUSE_S = 30.0
_DOWN = (ChainError, SQLAlchemyError, OSError, TimeoutError)
"""What may be down for a while, and is waited for."""


def next_boundary(now: datetime, every: timedelta) -> datetime:
    """The first multiple of `every`, counted from midnight UTC of 1 January 1970, after `now`."""
    epoch = datetime.fromtimestamp(0, tz=now.tzinfo)
    return epoch + ((now - epoch) // every + 1) * every


async def race_and_pay(validator: Validator, public: str, pool: str, every: timedelta) -> None:
    """Run races on the stored suites `public` and `pool`, and pay for them, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_races(validator, public, pool, every))
        group.create_task(_payments(validator))


async def _races(validator: Validator, public: str, pool: str, every: timedelta) -> None:
    """Each boundary ends the entry of one race. A race without an entrant is void, and the next one opens."""
    while True:
        try:
            race_id = await validator.engine.open_race(
                public, pool, boundary_at=next_boundary(utc_now(), every)
            )
            race = await validator.race(race_id)
            _log.info("race %d is %s; entry closes at %s", race.number, race.state, race.boundary_at)
            entering = asyncio.create_task(_enter(validator, race_id))
            try:
                await validator.drive(race_id, every_s=_LOOK_S)
            finally:
                entering.cancel()
            race = await validator.race(race_id)
            outcome = "settled" if race.void_reason is None else f"void ({race.void_reason})"
            _log.info("race %d is %s", race.number, outcome)
        except _DOWN as error:
            _log.warning("no race can be opened now, trying again in %.0f s: %s", _PAUSE_S, error)
            await asyncio.sleep(_PAUSE_S)


async def _enter(validator: Validator, race_id: UUID) -> None:
    """Enter accepted submissions as they come, until the boundary."""
    while True:
        try:
            for submission in await validator.engine.enter(race_id):
                _log.info("submission %s entered the race", submission)
        except EntryClosed:
            return
        except _DOWN as error:
            _log.warning("cannot enter submissions now: %s", error)
        await asyncio.sleep(_ENTER_EVERY_S)


async def _payments(validator: Validator) -> None:
    """Keep the weights on the chain those of the last race that settled."""
    told: tuple[UUID, bool] | None = None
    while True:
        pause_s = _LOOK_S
        try:
            race_id = await validator.last_settled()
            if race_id is not None:
                receipt = await validator.pay(race_id, fresh_for=FRESH_FOR)
                if told != (race_id, receipt.confirmed):
                    told = (race_id, receipt.confirmed)
                    state = "stand on the chain" if receipt.confirmed else "are sent, and not visible yet"
                    _log.info("the weights of race %s %s", race_id, state)
                pause_s = _LOOK_S if receipt.confirmed else _PAUSE_S
        except _DOWN as error:
            _log.warning("weights cannot be set now, trying again in %.0f s: %s", _PAUSE_S, error)
            pause_s = _PAUSE_S
        await asyncio.sleep(pause_s)
