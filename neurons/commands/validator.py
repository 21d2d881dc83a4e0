"""`arena validator` and `arena worker`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from sqlalchemy.exc import SQLAlchemyError

from arena.player import SandboxedPlayer
from arena.races import EntryClosed
from arena.suites import store_suite
from arena.worker import Worker
from neurons import settings
from neurons.chain import Chain, ChainError
from neurons.commands.flags import DatabaseUrl, DataDir, Netuid, Network, WalletHotkey, WalletName, WalletPath
from neurons.host import prepared_world, provider, ready_sandbox, socket_root
from neurons.serving import serving
from neurons.settings import Settings, SettingsError
from neurons.validator import Parts, Validator, utc_now
from neurons.wallets import open_wallet
from problems.shopping.world import World
from storage.database import Database

_log = logging.getLogger(__name__)

_PAUSE_S = 30.0

app = typer.Typer(help="Run a validator.", no_args_is_help=True)

ApiHost = Annotated[str | None, typer.Option("--api.host", help="Where submissions are taken.")]
ApiPort = Annotated[int | None, typer.Option("--api.port")]
ModelUrl = Annotated[
    str | None,
    typer.Option("--model.base-url", help="The OpenAI-compatible endpoint of agents' model calls."),
]
Models = Annotated[
    list[str] | None, typer.Option("--model.name", help="A model agents may use; the first is the default.")
]
Problems = Annotated[Path | None, typer.Option("--problems", help="A folder of ShoppingBench files.")]
Slots = Annotated[int | None, typer.Option("--slots", help="Episodes at a time.")]
Unsafe = Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Run agents without a sandbox.")]


@app.command("run")
def run(
    netuid: Netuid = None,
    network: Network = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    model_url: ModelUrl = None,
    models: Models = None,
    problems: Problems = None,
    api_host: ApiHost = None,
    api_port: ApiPort = None,
    slots: Slots = None,
    unsafe_no_sandbox: Unsafe = False,
    race_every_h: Annotated[
        float, typer.Option(help="Hours between races; their boundaries are multiples of it in UTC.")
    ] = 24.0,
) -> None:
    """Take submissions, race them, judge them, and set weights, until stopped."""
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "chain": {"netuid": netuid, "network": network},
            "wallet": {"name": wallet_name, "hotkey": wallet_hotkey, "path": wallet_path},
            "model": {"base_url": model_url, "models": tuple(models) if models else None},
            "problems": {"path": problems},
            "api": {"host": api_host, "port": api_port},
            "sandbox": {"slots": slots, "unsafe": unsafe_no_sandbox or None},
        }
    )
    if not chosen.chain.netuid:
        raise SettingsError("which subnet? give --netuid")
    if race_every_h <= 0:
        raise SettingsError("--race-every-h must be positive")
    asyncio.run(_validate(chosen, timedelta(hours=race_every_h)))


def work(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    model_url: ModelUrl = None,
    models: Models = None,
    problems: Problems = None,
    slots: Slots = None,
    unsafe_no_sandbox: Unsafe = False,
) -> None:
    """Play episodes for a validator whose database this reaches. Start as many as there are hosts."""
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "model": {"base_url": model_url, "models": tuple(models) if models else None},
            "problems": {"path": problems},
            "sandbox": {"slots": slots, "unsafe": unsafe_no_sandbox or None},
        }
    )
    asyncio.run(_work(chosen))


def next_boundary(now: datetime, every: timedelta) -> datetime:
    """The first multiple of `every`, counted from midnight UTC of 1 January 1970, after `now`."""
    epoch = datetime.fromtimestamp(0, tz=now.tzinfo)
    return epoch + ((now - epoch) // every + 1) * every


async def _validate(chosen: Settings, every: timedelta) -> None:
    wallet = open_wallet(chosen.wallet.name, chosen.wallet.hotkey, path=chosen.wallet.path.expanduser())
    async with contextlib.AsyncExitStack() as stack:
        chain = await stack.enter_async_context(Chain(chosen.chain.network, chosen.chain.netuid))
        if await chain.registered(wallet.hotkey.ss58_address) is None:
            raise SettingsError(
                f"hotkey {wallet.hotkey.ss58_address} is not registered on subnet {chosen.chain.netuid} "
                f"of {chosen.chain.network}: btcli tx burned-register --netuid {chosen.chain.netuid}"
            )
        sandbox = await ready_sandbox(unsafe=chosen.sandbox.unsafe, say=_log.info)
        upstream = await stack.enter_async_context(provider(chosen.model))
        world, database = await stack.enter_async_context(_store(chosen))
        public, pool = world.public.suite_id, world.pool.suite_id
        validator = Validator(
            Parts(
                database=database,
                rules=chosen.rules,
                environments=dict.fromkeys((public, pool), world.environment),
                sandbox=sandbox,
                upstream=upstream,
                chain=chain,
                wallet=wallet,
                socket_root=stack.enter_context(socket_root()),
                slots=chosen.sandbox.slots,
            )
        )
        url = await stack.enter_async_context(serving(validator.app(), chosen.api.host, chosen.api.port))
        await stack.enter_async_context(validator.working())
        typer.echo(f"validator {validator.hotkey} takes submissions at {url}", err=True)
        await _until_stopped(_races(validator, public, pool, every))


async def _races(validator: Validator, public: str, pool: str, every: timedelta) -> None:
    """One race after another. What is down for a while is waited for."""
    while True:
        try:
            race_id = await validator.engine.open_race(
                public, pool, boundary_at=next_boundary(utc_now(), every)
            )
            entering = asyncio.create_task(_enter(validator, race_id))
            try:
                state = await validator.drive(race_id)
            finally:
                entering.cancel()
            if state == "settled":
                receipt = await validator.pay(race_id)
                _log.warning("race %s settled; weights confirmed: %s", race_id, receipt.confirmed)
        except (ChainError, SQLAlchemyError, OSError, TimeoutError) as error:
            _log.warning("trying again in %.0f s: %s", _PAUSE_S, error)
            await asyncio.sleep(_PAUSE_S)


async def _enter(validator: Validator, race_id: UUID) -> None:
    """Enter accepted submissions as they come, until the boundary."""
    while True:
        try:
            await validator.engine.enter(race_id)
        except EntryClosed:
            return
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            _log.warning("cannot enter submissions now: %s", error)
        await asyncio.sleep(_PAUSE_S)


async def _work(chosen: Settings) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sandbox = await ready_sandbox(unsafe=chosen.sandbox.unsafe, say=_log.info)
        upstream = await stack.enter_async_context(provider(chosen.model))
        world, database = await stack.enter_async_context(_store(chosen))
        environments = dict.fromkeys((world.public.suite_id, world.pool.suite_id), world.environment)
        player = SandboxedPlayer(
            environments, sandbox, upstream, socket_root=stack.enter_context(socket_root())
        )
        worker = Worker(
            database,
            player,
            chosen.rules,
            name=f"{socket.gethostname()}:{os.getpid()}",
            slots=chosen.sandbox.slots,
            clock=utc_now,
            suites=frozenset(environments),
        )
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        typer.echo(f"working with {chosen.sandbox.slots} slots in {sandbox.name}", err=True)
        await worker.run(stop)


@contextlib.asynccontextmanager
async def _store(chosen: Settings) -> AsyncIterator[tuple[World, Database]]:
    """The world and the database, with the world's suites in it."""
    data_dir = chosen.data_dir.expanduser().absolute()
    world = await asyncio.to_thread(
        prepared_world, chosen.problems, data_dir / "world", public=chosen.rules.public_size
    )
    async with Database.open(chosen.url(), data_dir) as database:
        await database.migrate()
        await store_suite(database, world.public, "public")
        await store_suite(database, world.pool, "pool")
        yield world, database


async def _until_stopped(forever: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(forever)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
