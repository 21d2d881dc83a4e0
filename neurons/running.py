"""A validator as a running program: its parts, where it announces itself, and what it tells of its state."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from packaging.version import Version
from sqlalchemy import select

from neurons.chain import Chain
from neurons.chain_types import ChainRefused, ChainUnavailable, Endpoint
from neurons.rounds import race_and_pay
from neurons.serving import serving
from neurons.settings import ApiSettings, ChainSettings, Settings
from neurons.supervision import Part
from neurons.validator import Validator
from neurons.watching import watch_database
from storage.database import Database
from storage.tables import Race

_log = logging.getLogger(__name__)

_ANNOUNCE_EVERY_S = 3600.0
_RUNNING = ("drawing", "racing", "judging")
"""States of a race in which no other version of this program should take over."""


def version_key(installed: str | None = None) -> int:
    """This program's version as subnets count it in weights: 1.2.3 is 1023. The subnet's owner may ask for a
    newest one, to keep validators that are out of date from setting weights.
    """
    try:
        release = Version(installed or version("bittensor-agent-arena")).release
    except PackageNotFoundError:
        return 0
    major, minor, patch = (*release, 0, 0)[:3]
    return 1000 * major + 10 * minor + patch


def chain_of(chosen: ChainSettings) -> Chain:
    """The chain that the settings name."""
    return Chain(
        chosen.network,
        chosen.netuid,
        version_key=version_key(),
        fallbacks=chosen.fallback_endpoints,
        archives=chosen.archive_endpoints,
    )


def endpoint_of(api: ApiSettings, port: int) -> Endpoint | None:
    """Where the world finds us, listening on `port`; None when the settings do not say, or do not want it."""
    if not api.announce:
        return None
    port = api.external_port or port
    if api.external_ip is not None:
        return Endpoint(str(api.external_ip), port)
    try:
        listening = ipaddress.ip_address(api.host)
    except ValueError:
        return None
    return None if listening.is_unspecified or listening.is_loopback else Endpoint(str(listening), port)


def validator_parts(
    validator: Validator,
    chosen: Settings,
    *,
    public: str,
    pool: str,
    every: timedelta,
    tell: Callable[..., None],
) -> list[Part]:
    """All that a validator does, as parts that live and die together. `tell` prints (`err`: on stderr)."""
    database = validator.database
    parts: list[Part] = []

    async def api() -> None:
        app = validator.app()
        _add_status(app, validator, parts)
        async with serving(app, chosen.api.host, chosen.api.port) as url:
            tell(f"validator {validator.hotkey} takes submissions at {url}", err=True)
            await _announced(validator, endpoint_of(chosen.api, int(url.rpartition(":")[2])))

    parts += [
        Part("the API", api),
        Part("the worker", validator.play),
        Part("the judge", validator.judge),
        Part("the collection", validator.collector().run),
        Part("the database watch", lambda: watch_database(database)),
        *race_and_pay(validator, public, pool, every, set_weights=chosen.chain.set_weights),
    ]
    return parts


async def between_races(database: Database) -> str | None:
    """None while no race is being run, so that a newer version may take over; else what is under way."""
    async with database.session() as session:
        race = await session.scalar(select(Race).where(Race.state.in_(_RUNNING)).limit(1))
    return None if race is None else f"race {race.number} is {race.state}"


async def _announced(validator: Validator, endpoint: Endpoint | None) -> None:
    """Keep our endpoint in the metagraph until cancelled: a hotkey that registers anew loses it."""
    if endpoint is None:
        _log.info("no endpoint is announced: give --axon.external_ip for miners to find this validator")
        await asyncio.Event().wait()
        return
    while True:
        try:
            await validator.announce(endpoint)
            _log.info("the metagraph says that we answer at %s", endpoint.url)
        except (ChainRefused, ChainUnavailable) as error:
            _log.warning("our endpoint %s cannot be announced now: %s", endpoint.url, error)
        await asyncio.sleep(_ANNOUNCE_EVERY_S)


def _add_status(app: FastAPI, validator: Validator, parts: list[Part]) -> None:
    """Serve `/v1/status`: what an operator's alarm reads. Nothing in it is secret."""

    @app.get("/v1/status")
    async def status() -> dict[str, Any]:
        """How this validator fares: its parts, the chain, its weights, and whether a race is being run."""
        busy = await between_races(validator.database)
        heads, payments = validator.heads, validator.payments
        now = asyncio.get_running_loop().time()
        return {
            "parts": {part.name: {"failures": part.failures} for part in parts},
            "block": heads.newest,
            "block_age_s": None if heads.seen_at is None else round(now - heads.seen_at, 1),
            "weights": None if payments.status is None else asdict(payments.status),
            "weights_error": payments.last_error,
            "idle": busy is None,
        }
