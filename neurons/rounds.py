"""One race after another, and the weights of the last one on the chain: parts of a validator.

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
from arena.sandbox.sandbox import SandboxUnavailable
from neurons.chain_types import (
    NOT_REGISTERED,
    SUBNET_NOT_EXISTS,
    ChainRefused,
    ChainStalled,
    ChainUnavailable,
)
from neurons.serving import PortTaken
from neurons.settings import SettingsError
from neurons.supervision import Part, single_failure
from neurons.validator import Validator, utc_now
from neurons.watching import DatabaseLost

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_ENTER_EVERY_S = 2.0
_PAUSE_S = 30.0
_DOWN = (ChainUnavailable, SQLAlchemyError, OSError, TimeoutError)
"""What may be down for a while, and is waited for."""


def next_boundary(now: datetime, every: timedelta) -> datetime:
    """The first multiple of `every`, counted from midnight UTC of 1 January 1970, after `now`."""
    epoch = datetime.fromtimestamp(0, tz=now.tzinfo)
    return epoch + ((now - epoch) // every + 1) * every


def boundary_number(boundary_at: datetime, every: timedelta) -> int:
    """Which multiple of `every` a boundary is: the same on every validator, whatever it has missed."""
    return (boundary_at - datetime.fromtimestamp(0, tz=boundary_at.tzinfo)) // every


def race_and_pay(
    validator: Validator, public: str, pool: str, every: timedelta, *, set_weights: bool = True
) -> list[Part]:
    """The parts that run races on the stored suites `public` and `pool`, and pay for them."""
    parts = [
        Part("the chain watch", validator.heads.run),
        Part("races", lambda: _races(validator, public, pool, every)),
    ]
    if set_weights:
        parts.append(Part("weights", lambda: validator.payments.keep(validator.heads)))
    return parts


def no_restart_mends(error: Exception) -> bool:
    """Whether a part that failed so would fail so again, until people do something or all is started anew."""
    beyond = (ChainStalled, DatabaseLost, PortTaken, SandboxUnavailable, SettingsError)
    return isinstance(error, beyond) or (
        isinstance(error, ChainRefused) and error.code in (NOT_REGISTERED, SUBNET_NOT_EXISTS)
    )


async def _races(validator: Validator, public: str, pool: str, every: timedelta) -> None:
    """Each boundary ends the entry of one race. A race without an entrant is void, and the next one opens."""
    while True:
        try:
            boundary_at = next_boundary(utc_now(), every)
            number = _number(validator, boundary_at, every)
            if number is not None:
                for missed in await validator.engine.catch_up(public, pool, until=number):
                    _log.info("race %d was run while this validator was down", missed)
            race_id = await validator.engine.open_race(public, pool, boundary_at=boundary_at, number=number)
            race = await validator.race(race_id)
            _log.info("race %d is %s; entry closes at %s", race.number, race.state, race.boundary_at)
            with single_failure():
                async with asyncio.TaskGroup() as group:
                    entering = group.create_task(_enter(validator, race_id))
                    await validator.drive(race_id, every_s=_LOOK_S)
                    entering.cancel()
            race = await validator.race(race_id)
            outcome = "settled" if race.void_reason is None else f"void ({race.void_reason})"
            _log.info("race %d is %s", race.number, outcome)
        except _DOWN as error:
            _log.warning("no race can be opened now, trying again in %.0f s: %s", _PAUSE_S, error)
            await asyncio.sleep(_PAUSE_S)


def _number(validator: Validator, boundary_at: datetime, every: timedelta) -> int | None:
    """The number of a race that is decided with others; one that is not is just the next."""
    return boundary_number(boundary_at, every) if validator.together else None


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
