"""`arena validator` and `arena worker`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from arena.player import SandboxedPlayer
from arena.suites import store_suite
from arena.worker import Worker
from neurons import settings
from neurons.commands import flags
from neurons.commands.flags import (
    AxonIp,
    AxonPort,
    ChainEndpoint,
    DatabaseUrl,
    DataDir,
    ExternalIp,
    ExternalPort,
    Json,
    LoggingDebug,
    LoggingInfo,
    LoggingTrace,
    Netuid,
    Network,
    WalletHotkey,
    WalletName,
    WalletPath,
)
from neurons.host import (
    claimed_slots,
    existing_store,
    own_keys,
    prepared_world,
    provider,
    publish_plan,
    published_plan,
    ready_sandbox,
    sealing_key,
    seeded,
    socket_root,
)
from neurons.judges import chosen_judge
from neurons.rounds import no_restart_mends
from neurons.running import between_races, chain_of, validator_parts
from neurons.sealed import announced
from neurons.settings import ProblemSettings, Settings, SettingsError
from neurons.stopping import TRY_LATER, until_stopped
from neurons.supervision import together
from neurons.validator import Parts, Validator, utc_now
from neurons.wallets import open_wallet
from problems.shopping.world import World
from storage.database import Database
from storage.tables import Suite

_log = logging.getLogger(__name__)

app = typer.Typer(help="Run a validator.", no_args_is_help=True)

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
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    model_url: ModelUrl = None,
    models: Models = None,
    problems: Problems = None,
    axon_ip: AxonIp = None,
    axon_port: AxonPort = None,
    external_ip: ExternalIp = None,
    external_port: ExternalPort = None,
    axon_off: Annotated[
        bool, typer.Option("--neuron.axon_off", help="Write no endpoint into the metagraph.")
    ] = False,
    disable_set_weights: Annotated[
        bool, typer.Option("--neuron.disable_set_weights", help="Race, but leave the chain's weights alone.")
    ] = False,
    slots: Slots = None,
    unsafe_no_sandbox: Unsafe = False,
    race_every_h: Annotated[
        float, typer.Option(help="Hours between races; their boundaries are multiples of it in UTC.")
    ] = 24.0,
    logging_info: LoggingInfo = False,
    logging_debug: LoggingDebug = False,
    logging_trace: LoggingTrace = False,
) -> None:
    """Take submissions, race them, judge them, and set weights, until stopped."""
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "chain": {
                **flags.chain(netuid, network, chain_endpoint),
                "set_weights": False if disable_set_weights else None,
            },
            "wallet": {"name": wallet_name, "hotkey": wallet_hotkey, "path": wallet_path},
            "model": {"base_url": model_url, "models": tuple(models) if models else None},
            "problems": {"path": problems},
            "api": {
                "host": axon_ip,
                "port": axon_port,
                "external_ip": external_ip,
                "external_port": external_port,
                "announce": False if axon_off else None,
            },
            "logging": {"level": flags.level(info=logging_info, debug=logging_debug, trace=logging_trace)},
            "sandbox": {"slots": slots, "unsafe": unsafe_no_sandbox or None},
        }
    )
    flags.tell(chosen.logging)
    if not chosen.chain.netuid:
        raise SettingsError("which subnet? give --netuid")
    if race_every_h <= 0:
        raise SettingsError("--race-every-h must be positive")
    asyncio.run(until_stopped(_validate(chosen, timedelta(hours=race_every_h))))


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
    asyncio.run(until_stopped(_work(chosen)))


@app.command("idle")
def idle(data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: Json = False) -> None:
    """Say whether no race is being run, for whoever updates images: status 0 when so, else 75."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def look() -> str | None:
        async with existing_store(chosen) as database:
            return await between_races(database)

    busy = asyncio.run(look())
    if as_json:
        typer.echo(json.dumps({"idle": busy is None, "why_not": busy}))
    else:
        typer.echo("idle" if busy is None else f"busy: {busy}")
    if busy is not None:
        raise typer.Exit(TRY_LATER)


async def _validate(chosen: Settings, every: timedelta) -> None:
    wallet = open_wallet(chosen.wallet.name, chosen.wallet.hotkey, path=chosen.wallet.path)
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(provider(chosen.model, chosen.rules.budget))
        chain = await stack.enter_async_context(chain_of(chosen.chain))
        if await chain.registered(wallet.hotkey.ss58_address) is None:
            raise SettingsError(
                f"hotkey {wallet.hotkey.ss58_address} is not registered on subnet {chosen.chain.netuid} "
                f"of {chosen.chain.network}: btcli tx burned-register --netuid {chosen.chain.netuid}"
            )
        await chain.spec_version()
        sandbox = await ready_sandbox(
            unsafe=chosen.sandbox.unsafe,
            backend=chosen.sandbox.backend,
            packages=chosen.sandbox.packages,
            say=_log.info,
        )
        problems = await asyncio.to_thread(seeded, chosen.problems, chosen.data_dir / "world")
        world = await _world(chosen, problems, chosen.rules.public_size)
        database = await stack.enter_async_context(Database.open(chosen.url(), chosen.data_dir))
        await database.migrate()
        await publish_plan(database, problems, public=chosen.rules.public_size, web=chosen.web)
        public = await store_suite(database, world.public, "public")
        pool = await store_suite(database, world.pool, "pool")
        sealing = sealing_key(chosen, make=True)
        validator = Validator(
            Parts(
                database=database,
                rules=chosen.rules,
                environments=dict.fromkeys((public, pool), world.environment),
                sandbox=sandbox,
                upstream=upstream,
                chain=chain,
                wallet=wallet,
                judge=await stack.enter_async_context(chosen_judge(chosen, database)),
                own_keys=own_keys(chosen.model, sealing),
                sealing=announced(sealing, wallet, chosen.model.miner_endpoints),
                operators=chosen.api.operators,
                stalled_after_s=chosen.chain.stalled_after_s,
                socket_root=stack.enter_context(socket_root()),
                slots=chosen.sandbox.slots,
                first_slot=stack.enter_context(claimed_slots(chosen.sandbox.slots)),
            )
        )
        parts = validator_parts(validator, chosen, public=public, pool=pool, every=every, tell=typer.echo)
        await together(parts, fatal=no_restart_mends)


async def _work(chosen: Settings) -> None:
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(provider(chosen.model, chosen.rules.budget))
        sandbox = await ready_sandbox(
            unsafe=chosen.sandbox.unsafe,
            backend=chosen.sandbox.backend,
            packages=chosen.sandbox.packages,
            say=_log.info,
        )
        database = await stack.enter_async_context(Database.open(chosen.url(), chosen.data_dir))
        await database.migrate()
        planned = await published_plan(database, chosen.problems, chosen.web)
        world = await _world(chosen, *(planned or (chosen.problems, chosen.rules.public_size)))
        environments = dict.fromkeys((world.public.suite_id, world.pool.suite_id), world.environment)
        await _require_suites(database, environments)
        player = SandboxedPlayer(
            environments,
            sandbox,
            upstream,
            own_keys=own_keys(chosen.model, sealing_key(chosen, make=False)),
            socket_root=stack.enter_context(socket_root()),
            first_slot=stack.enter_context(claimed_slots(chosen.sandbox.slots)),
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
        typer.echo(f"working with {chosen.sandbox.slots} slots in {sandbox.name}", err=True)
        await worker.run(asyncio.Event())


async def _world(chosen: Settings, problems: ProblemSettings, public: int) -> World:
    folder = chosen.data_dir / "world"
    return await asyncio.to_thread(prepared_world, problems, folder, public=public, web=chosen.web)


async def _require_suites(database: Database, suites: Iterable[str]) -> None:
    """Refuse to wait for ever for episodes of problems that the validator does not play."""
    async with database.session() as session:
        for suite in suites:
            if await session.get(Suite, suite) is None:
                raise SettingsError(
                    "this database has none of this worker's problems: start its validator first, and give "
                    "both the same problems.* settings and rules.public_size (or copy the validator's "
                    "world folder)"
                )
