"""What a process that plays episodes needs of its host: a sandbox that holds, a socket folder, a world."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from arena.paying import OwnKeys
from arena.recorder.budget import Budget, Price, Unpriced
from arena.recorder.upstream import Upstream
from arena.rules import BudgetRules
from arena.sandbox.packages import differences
from arena.sandbox.probe import PROBE_SLOT
from arena.sandbox.sandbox import BackendName, Sandbox, SandboxUnavailable, choose
from arena.sandbox.staging import PACKAGES, socket_folder, stage
from arena.sandbox.staging import socket_root as runtime_folder
from arena.sealing import NoSealingKey, SealingKey
from neurons.settings import ModelSettings, ProblemSettings, Settings, SettingsError, WebSettings
from problems.shopping.answer import read_answer
from problems.shopping.embedding import EmbeddingSimilarity
from problems.shopping.options import ShoppingOptions
from problems.shopping.serper import SerperSearch
from problems.shopping.shopping_environment import NAME as SHOPPING
from problems.shopping.similarity import LexicalSimilarity, TitleSimilarity
from problems.shopping.world import World
from problems.worlds import prepared
from storage.database import Database
from storage.tables import WorldPlan

_log = logging.getLogger(__name__)

NO_WEB = WebSettings()
_SLOTS = PROBE_SLOT
"""Slots of one host; the one behind them is the probe's."""

_HELD = "held-"
"""How the names of socket folders begin that are locked while they are used."""
_NEW_S = 60.0


def _unsaid(note: str) -> None:
    pass


async def ready_sandbox(
    *,
    unsafe: bool,
    backend: BackendName = "auto",
    packages: Sequence[str] = PACKAGES,
    say: Callable[[str], None] = _unsaid,
) -> Sandbox:
    """The sandbox that `backend` names, or the strongest; see `choose`."""
    say("staging a Python for agents")
    staged = await asyncio.to_thread(stage, packages=packages)
    for difference in differences(staged.packages) if tuple(packages) == PACKAGES else ():
        _log.warning("agents are promised another package: %s", difference)
    say("probing with a canary")
    sandbox = await choose(staged, backend=backend, unsafe=unsafe)
    say(f"{sandbox.name}, {len(staged.packages)} packages for agents")
    return sandbox


@contextlib.contextmanager
def socket_root() -> Iterator[Path]:
    """A folder for the recorders' sockets that the agents' users can enter but not list.

    It is locked for as long as it is used, so that what a killed process left behind is known, and removed.
    """
    folder = socket_folder(_HELD)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        _remove_abandoned(folder.parent)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _remove_abandoned(root: Path) -> None:
    """Remove socket folders that nobody holds. One that is new may be about to be locked."""
    for folder in root.glob(f"{_HELD}*"):
        with contextlib.suppress(OSError):  # others do the same at the same time
            if time.time() - folder.stat().st_mtime < _NEW_S:
                continue
            left = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(left)


@contextlib.contextmanager
def claimed_slots(count: int) -> Iterator[int]:
    """The first of `count` sandbox slots that no other process of this host has.

    Two agents in one slot would run as one user, and could use up each other's limits. The kernel drops the
    claim of a process that is gone. Raises SandboxUnavailable when there are not so many in a row.
    """
    folder = runtime_folder()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    lock = os.open(folder / "slots.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for first in range(_SLOTS - count + 1):
            # A byte a slot. Locks of the open file, not of the process: one process may claim twice.
            region = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
            with contextlib.suppress(BlockingIOError, PermissionError):
                fcntl.fcntl(lock, fcntl.F_OFD_SETLK, region)
                break
        else:
            raise SandboxUnavailable(
                f"other processes of this host have taken its {_SLOTS} sandbox slots but for less than "
                f"{count}: give fewer --slots"
            )
        yield first
    finally:
        os.close(lock)


def prices(model: ModelSettings) -> dict[str, Price]:
    """The price table of the settings."""
    return {name: Price(price.prompt, price.completion) for name, price in model.prices.items()}


@contextlib.asynccontextmanager
async def provider(model: ModelSettings, budget: BudgetRules) -> AsyncIterator[Upstream]:
    """The endpoint that agents' model calls go to. Raises SettingsError when none is set, or when `budget`
    counts money and a model has no price.
    """
    if model.base_url is None or not model.models:
        raise SettingsError(
            "no model endpoint is set: give --model.base-url and --model.name, or model.base_url and "
            "model.models in arena.toml"
        )
    table = prices(model)
    try:
        Budget(**budget.model_dump()).check_prices(model.models, table)
    except Unpriced as error:
        raise SettingsError(str(error)) from None
    upstream = Upstream(
        model.base_url, model.api_key, model.models, model.timeout_s, model.retries, prices=table
    )
    try:
        yield upstream
    finally:
        await upstream.aclose()


def sealing_key(settings: Settings, *, make: bool) -> SealingKey | None:
    """What opens miners' own keys, in the data folder; None where the settings let them go nowhere.

    Raises SettingsError when it cannot be used, and, unless `make`, when it is not there.
    """
    if not settings.model.miner_endpoints:
        return None
    try:
        return SealingKey.kept(settings.data_dir / "sealing.key", make=make)
    except NoSealingKey as error:
        raise SettingsError(str(error)) from None


def own_keys(model: ModelSettings, sealing: SealingKey | None) -> OwnKeys:
    """Who opens miners' own keys for their episodes, and where they go."""
    return OwnKeys(
        sealing,
        model.miner_endpoints,
        model.models,
        timeout_s=model.timeout_s,
        retries=model.retries,
        prices=prices(model),
    )


@contextlib.asynccontextmanager
async def existing_store(settings: Settings) -> AsyncIterator[Database]:
    """The database of an earlier run, for commands that read it. Raises SettingsError when there is none:
    a misspelt folder must not become a new, empty store.
    """
    if settings.url() is None and not (settings.data_dir / "postgres").is_dir():
        raise SettingsError(
            f"there is no database in {settings.data_dir}: give the --data-dir or --database-url of a "
            "validator or demo"
        )
    async with Database.open(settings.url(), settings.data_dir) as database:
        await database.migrate()
        yield database


def seeded(problems: ProblemSettings, folder: Path) -> ProblemSettings:
    """The settings with a seed: theirs, or the one kept beside `folder`, drawn when there is none yet."""
    if problems.seed is not None:
        return problems
    return problems.model_copy(update={"seed": _kept_seed(folder.with_name(folder.name + ".seed"))})


def prepared_world(
    problems: ProblemSettings, folder: Path, *, public: int, web: WebSettings = NO_WEB
) -> World:
    """The world in `folder`, made when it is not there. Raises WorldError, ImportFailed, SynthesisError,
    SnippetFileError, EmbedderMissing.
    """
    seed = seeded(problems, folder).seed
    assert seed is not None
    similarity = title_similarity(problems, folder.parent)
    world = prepared(
        problems.environment,
        folder,
        seed=seed,
        public=public,
        pool=problems.pool,
        products=problems.products,
        path=problems.path,
        snippets=web.snippets if web.provider == "snippets" else None,
        web=web_service(web),
        similarity=similarity,
        options=shopping_options(problems),
    )
    if isinstance(similarity, EmbeddingSimilarity) and problems.environment == SHOPPING:
        _embed_ahead(similarity, world)
    return world


def web_service(web: WebSettings) -> SerperSearch | None:
    """The service that web_search asks; None when there is none, or a store of snippets stands for it."""
    if web.provider != "serper" or web.api_key is None:
        return None
    return SerperSearch(web.api_key, web.base_url, timeout_s=web.timeout_s)


def title_similarity(problems: ProblemSettings, data_dir: Path) -> TitleSimilarity:
    """How titles are compared; vectors of an embedding model are kept in `data_dir`."""
    if problems.similarity == "lexical":
        return LexicalSimilarity()
    return EmbeddingSimilarity(data_dir / "embeddings", problems.embedding_model, problems.embedding_revision)


def shopping_options(problems: ProblemSettings) -> ShoppingOptions:
    """The choices of a shopping world that brings none of its own."""
    return ShoppingOptions(exhaustive_sort=problems.exhaustive_sort, parity=problems.parity)


def _embed_ahead(similarity: EmbeddingSimilarity, world: World) -> None:
    """Load the model and embed the targets' titles now: an episode's score may not wait for that."""
    answers = [read_answer(p) for suite in (world.public, world.pool) for p in suite.problems]
    titles = {title for answer in answers for target in answer.reward for title in target.title}
    similarity.load()
    similarity.vectors(sorted(titles), told=lambda done, of: _log.info("embedded %d of %d titles", done, of))


async def publish_plan(
    database: Database, problems: ProblemSettings, *, public: int, web: WebSettings = NO_WEB
) -> None:
    """Tell the workers of this database how to make the world that the validator plays."""
    plan = problems.model_dump(mode="json") | {"public": public, "web": web.provider}
    async with database.session() as session:
        await session.merge(WorldPlan(id=1, plan=plan))


async def published_plan(
    database: Database, own: ProblemSettings, web: WebSettings = NO_WEB
) -> tuple[ProblemSettings, int] | None:
    """The validator's plan and the size of its public suite; None when no validator has been here.

    Only where the ShoppingBench files lie, and how the web is searched, is each host's own. Raises
    SettingsError when it is needed and `own` or `web` does not say.
    """
    async with database.session() as session:
        found = await session.get(WorldPlan, 1)
    if found is None:
        return None
    plan = dict(found.plan)
    public, searched = int(plan.pop("public")), plan.pop("web", NO_WEB.provider)
    if searched != web.provider:
        raise SettingsError(
            f'this validator plays with web.provider = "{searched}": set [web] here as it is there'
        )
    problems = ProblemSettings.model_validate(plan | {"path": own.path})
    if plan["path"] is not None and own.path is None:
        raise SettingsError(
            "this validator plays ShoppingBench's files: say with --problems where they lie here"
        )
    if plan["path"] is None:
        problems = problems.model_copy(update={"path": None})
    return problems, public


def _kept_seed(file: Path) -> int:
    """The seed in `file`, drawn when there is none yet; readable by us alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    aside.touch(mode=0o600)
    aside.write_text(str(secrets.randbits(63)))
    with contextlib.suppress(FileExistsError):
        os.link(aside, file)  # whole or not at all, and never over another process's
    aside.unlink()
    return int(file.read_text())
