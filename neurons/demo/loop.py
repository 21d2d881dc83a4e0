"""The demo's steps, in order.

Each looks first at what is there already, so that a demo that was killed at any point goes on from there when
it is started again with the same folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import func, select

from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Sandbox
from arena.scripted_shopper.child import ShopperServer
from arena.suites import store_suite
from distill import pipeline
from distill.config import read_config
from distill.corpus import CorpusTooSmall
from distill.pipeline import DistillReport
from neurons.chain import Chain, WeightReceipt, keep_sdk_files_in
from neurons.demo.cast import CASTS, Cast, Miner
from neurons.demo.gathering import gather
from neurons.demo.options import DemoOptions, claimed
from neurons.demo.report import DemoReport
from neurons.demo.screen import Part, Screen
from neurons.host import claimed_slots, prepared_world, ready_sandbox, socket_root
from neurons.localnet.launch import LocalNet
from neurons.miner import commit_and_submit
from neurons.serving import serving
from neurons.validator import Parts, Validator, utc_now
from neurons.wallets import Wallet, demo_wallet
from problems.shopping.world import World
from storage.database import Database
from storage.export import export
from storage.tables import Episode, Race
from storage.traces import TraceQuery, stream

MODELS = ("scripted-shopper-careful", "scripted-shopper-noisy", "scripted-shopper-hasty")
_SLOTS = 3
_FUNDS_TAO = 1000.0
_STAKE_TAO = 10_000.0


class RaceVoid(RuntimeError):
    """The demo's race could not be run fairly."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the demo runs in."""

    options: DemoOptions
    data_dir: Path
    world: World
    database: Database
    sandbox: Sandbox
    chain: Chain
    wallets: dict[str, Wallet]
    validator: Validator


async def run_demo(
    options: DemoOptions,
    data_dir: Path,
    screen: Screen,
    *,
    database_url: str | None = None,
    unsafe: bool = False,
) -> DemoReport:
    """Run the demo, or go on with it, and return its report.

    Raises the typed errors of the parts; DemoMismatch and DemoRunning when the folder is taken; RaceVoid.
    """
    began = time.monotonic()
    with claimed(data_dir, options):
        async with _set(options, data_dir, screen, database_url=database_url, unsafe=unsafe) as setting:
            race_id = await _race(setting, screen)
            receipt = await _pay(setting, screen, race_id)
            exported = await _export(setting, screen, race_id)
            trained = await _train(setting, screen, race_id)
            with screen.part("report"):
                return await gather(
                    options=options,
                    data_dir=data_dir,
                    world=setting.world,
                    database=setting.database,
                    sandbox=setting.sandbox.name,
                    model=MODELS[0],
                    race_id=race_id,
                    metagraph=await setting.chain.metagraph(),
                    receipt=receipt,
                    trained=trained,
                    exported=exported,
                    wall_s=time.monotonic() - began,
                )


@contextlib.asynccontextmanager
async def _set(
    options: DemoOptions, data_dir: Path, screen: Screen, *, database_url: str | None, unsafe: bool
) -> AsyncIterator[_Setting]:
    async with contextlib.AsyncExitStack() as stack:
        with screen.part("sandbox") as part:
            sandbox = await ready_sandbox(unsafe=unsafe, say=part.say)
        with screen.part("problems") as part:
            part.say("making the world and its problems")
            world = await asyncio.to_thread(
                prepared_world, options.source(), data_dir / "world", public=options.public
            )
            part.say(
                f"{world.catalog_size} {options.records}, {len(world.public.problems)} public "
                f"problems, a pool of {len(world.pool.problems)}, {len(world.refused)} refused"
            )
        with screen.part("database") as part:
            database = await stack.enter_async_context(Database.open(database_url, data_dir))
            await database.migrate()
            public = await store_suite(database, world.public, "public")
            pool = await store_suite(database, world.pool, "pool")
            part.say("at the given URL" if database_url else f"embedded PostgreSQL in {data_dir}")
        with screen.part("chain") as part:
            keep_sdk_files_in(data_dir / "chain" / "sdk")
            net = await stack.enter_async_context(_localnet(options, data_dir))
            chain = await stack.enter_async_context(Chain(net.url, options.netuid))
            wallets = await _wallets(net, chain, CASTS[options.environment], data_dir / "wallets", part)
        shopper = await stack.enter_async_context(_shopper(screen))
        sockets = stack.enter_context(socket_root())
        upstream = Upstream(shopper, None, MODELS)
        stack.push_async_callback(upstream.aclose)
        validator = Validator(
            Parts(
                database=database,
                rules=options.rules(),
                environments=dict.fromkeys((public, pool), world.environment),
                sandbox=sandbox,
                upstream=upstream,
                chain=chain,
                wallet=wallets["validator"],
                socket_root=sockets,
                slots=_SLOTS,
                first_slot=stack.enter_context(claimed_slots(_SLOTS)),
            )
        )
        yield _Setting(options, data_dir, world, database, sandbox, chain, wallets, validator)


def _localnet(options: DemoOptions, data_dir: Path) -> LocalNet:
    return LocalNet(state=data_dir / "chain" / "state.sqlite", netuid=options.netuid, block_time_s=0.25)


async def _wallets(net: LocalNet, chain: Chain, cast: Cast, folder: Path, part: Part) -> dict[str, Wallet]:
    """Wallets of the validator and of every miner, funded and registered."""
    names = ["validator", *(miner.wallet for miner in cast.miners)]
    wallets = {name: demo_wallet(name, folder, network=net.url) for name in names}
    for number, (name, wallet) in enumerate(wallets.items()):
        part.say(f"registering {name}")
        part.count(number, len(wallets))
        coldkey = wallet.coldkey.ss58_address
        if await chain.balance(coldkey) < 1.0:
            await asyncio.to_thread(net.fund, coldkey, _FUNDS_TAO)
        await chain.register(wallet)
    await asyncio.to_thread(net.set_stake, chain.netuid, wallets["validator"].hotkey.ss58_address, _STAKE_TAO)
    head = await chain.head()
    part.say(f"local node at block {head.number}, {len(wallets)} hotkeys registered on subnet {chain.netuid}")
    return wallets


@contextlib.asynccontextmanager
async def _shopper(screen: Screen) -> AsyncIterator[str]:
    server = ShopperServer()
    with screen.part("model") as part:
        await asyncio.to_thread(server.start)
        part.say(f"scripted-shopper at {server.base_url}: rules, not a language model")
    try:
        yield server.base_url
    finally:
        await asyncio.to_thread(server.stop)


async def _race(setting: _Setting, screen: Screen) -> UUID:
    """The demo's one race, driven until it has settled."""
    validator, database = setting.validator, setting.database
    async with database.session() as session:
        race = await session.scalar(select(Race).order_by(Race.number).limit(1))
    if race is None or race.state == "qualifying":
        race_id = await _submissions(setting, screen)
    else:
        race_id = race.id
    async with validator.working():
        state = await _drive(setting, screen, race_id)
    if state != "settled":
        async with database.session() as session:
            race = await session.get_one(Race, race_id)
        raise RaceVoid(f"the race is void: {race.void_reason}")
    return race_id


async def _submissions(setting: _Setting, screen: Screen) -> UUID:
    """Every miner commits on chain and submits over HTTP; the race is opened with all of them in it."""
    validator, cast = setting.validator, CASTS[setting.options.environment]
    with screen.part("submissions") as part:
        async with serving(validator.app(), "127.0.0.1", 0) as api_url:
            champion = await _submit(setting, cast.founding_champion, api_url)
            accepted = [champion]
            for number, miner in enumerate(cast.challengers, start=1):
                part.say(miner.agent)
                part.count(number, len(cast.miners))
                accepted.append(await _submit(setting, miner, api_url))
        race_id = await validator.engine.open_race(
            setting.world.public.suite_id, setting.world.pool.suite_id, founding_champion=champion
        )
        await validator.engine.enter(race_id, accepted)
        part.say(f"{len(accepted)} agents, committed on chain, signed, screened")
    return race_id


async def _submit(setting: _Setting, miner: Miner, api_url: str) -> UUID:
    sent = await commit_and_submit(
        setting.chain,
        setting.wallets[miner.wallet],
        source=miner.source(),
        name=miner.agent,
        api_url=api_url,
        receiver=setting.validator.hotkey,
    )
    return sent.receipt.submission_id


async def _drive(setting: _Setting, screen: Screen, race_id: UUID) -> str:
    with screen.part("race") as part:

        async def watch(state: str) -> None:
            done, total = await _progress(setting.database, race_id)
            part.count(done, total)
            part.say(f"{state}: {done} of {total} episodes played")

        return await setting.validator.drive(race_id, watch=watch)


async def _progress(database: Database, race_id: UUID) -> tuple[int, int]:
    async with database.session() as session:
        counted = await session.execute(
            select(func.count(), func.count().filter(Episode.state == "done")).where(
                Episode.race_id == race_id
            )
        )
        total, done = counted.one()
    return done, total


async def _pay(setting: _Setting, screen: Screen, race_id: UUID) -> WeightReceipt:
    with screen.part("weights") as part:
        part.say("setting weights and reading them back")
        receipt = await setting.validator.pay(race_id)
        part.say(
            f"{len(receipt.sent)} uids, {'confirmed' if receipt.confirmed else 'NOT confirmed'} by the chain"
        )
        return receipt


async def _export(setting: _Setting, screen: Screen, race_id: UUID) -> dict[str, Path]:
    folders: dict[str, Path] = {}
    with screen.part("export") as part:
        for format in ("openai", "atif"):
            folders[format] = setting.data_dir / "traces" / format
            manifest = await export(
                setting.database,
                TraceQuery(race_id=race_id),
                format=format,
                out=folders[format],
                created_at=utc_now(),
                overwrite=True,
            )
            part.say(f"{manifest.traces} traces as openai and atif")
    return folders


async def _train(setting: _Setting, screen: Screen, race_id: UUID) -> DistillReport | CorpusTooSmall:
    """What training gave. A corpus too small for it is a result too: it says what the filters dropped."""
    with screen.part("distillation") as part:

        def show(progress: pipeline.Progress) -> None:
            part.say(f"{progress.what}: {progress.message}")
            if progress.fraction is not None:
                part.count(progress.fraction, 1.0)

        try:
            report = await pipeline.run(
                read_config(Path(pipeline.__file__).parent / "configs" / "tiny_cpu.yaml"),
                stream(setting.database, TraceQuery(race_id=race_id)),
                setting.data_dir / "distill",
                show,
            )
        except CorpusTooSmall as small:
            part.say(f"not trained: {small}")
            return small
        kept = report.manifest.funnel
        part.say(f"{kept['kept']} of {kept['in']} traces kept; tiny Qwen3 trained")
        return report
