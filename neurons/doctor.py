"""What a validator needs of its machine, its wallet and its chain, checked one by one.

Each check ends as a finding: fine, a problem with what to do about it, or left out with what it would need.
None of them changes anything, and each has a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import httpx
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from arena.sandbox.sandbox import SandboxUnavailable, choose
from arena.sandbox.slots import quarantined_here
from arena.sandbox.staging import stage
from neurons.chain import Chain
from neurons.chain_types import ChainError, ChainUnavailable, Metagraph, Neuron
from neurons.running import chain_of, version_key
from neurons.settings import ModelSettings, Settings
from neurons.wallets import Wallet, WalletMissing, open_wallet
from neurons.weights import overdue
from storage.database import Database
from storage.errors import StorageError

State = Literal["fine", "problem", "left out"]

ENOUGH_DISK_BYTES = 10 << 30
_CHECK_DEADLINE_S = 120.0
_HTTP_DEADLINE_S = 10.0
_NEXT_BLOCK_S = 40.0
_BEHIND_S = 2.0
_AHEAD_S = 10.0
"""A signed request is refused when it seems to come from more than two seconds ahead, or ten behind."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `remedy` says what to do about a problem, or for what was left out."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def fine(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "fine", detail)


def problem(check: str, detail: str, remedy: str) -> Finding:
    """Something to do."""
    return Finding(check, "problem", detail, remedy)


def left_out(check: str, detail: str, remedy: str) -> Finding:
    """Not checked."""
    return Finding(check, "left out", detail, remedy)


async def examine(chosen: Settings) -> AsyncIterator[Finding]:
    """All findings, as they come."""
    yield check_disk(chosen.data_dir)
    wallet_finding, wallet = check_wallet(chosen)
    yield wallet_finding
    async for finding in _on_chain(chosen, wallet):
        yield finding
    for name, check in (
        ("database", lambda: check_database(chosen)),
        ("sandbox", lambda: check_sandbox(chosen)),
        ("model endpoint", lambda: check_model(chosen.model)),
    ):
        yield await _in_time(name, check)


def check_disk(data_dir: Path, *, enough: int = ENOUGH_DISK_BYTES) -> Finding:
    """Whether traces have room."""
    there = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    detail = f"{free / (1 << 30):.1f} GiB free for {data_dir}"
    if free < enough:
        more = f"free {enough / (1 << 30):.0f} GiB there, or choose another --data-dir"
        return problem("disk", detail, more)
    return fine("disk", detail)


def check_wallet(chosen: Settings) -> tuple[Finding, Wallet | None]:
    """Whether the hotkey can be opened."""
    named = f"hotkey {chosen.wallet.hotkey!r} of wallet {chosen.wallet.name!r}"
    try:
        wallet = open_wallet(chosen.wallet.name, chosen.wallet.hotkey, path=chosen.wallet.path)
        address = wallet.hotkey.ss58_address
    except WalletMissing as error:
        found = problem if chosen.chain.netuid else left_out
        return found("wallet", f"there is no {named}", str(error)), None
    except Exception as error:  # noqa: BLE001  # the SDK's key files raise what their readers raise
        mend = "restore the key from its mnemonic: btcli wallet regen-hotkey"
        return problem("wallet", f"{named} cannot be opened: {error}", mend), None
    return fine("wallet", f"{named} is {address}"), wallet


async def check_database(chosen: Settings) -> Finding:
    """Whether PostgreSQL answers. Never makes a store where there is none."""
    if chosen.url() is None and not (chosen.data_dir / "postgres").is_dir():
        return left_out(
            "database",
            f"an embedded PostgreSQL will be made in {chosen.data_dir}",
            "start the validator once, or give --database-url",
        )
    try:
        async with Database.open(chosen.url(), chosen.data_dir) as database, database.session() as session:
            version = str(await session.scalar(text("SHOW server_version")))
    except (StorageError, SQLAlchemyError, OSError, TimeoutError) as error:
        said = str(error).partition("\n")[0]
        return problem("database", said, "start PostgreSQL, or correct --database-url")
    return fine("database", f"PostgreSQL {version} answers")


async def check_sandbox(chosen: Settings) -> Finding:
    """Whether a sandbox holds against the canary that tries what agents must not do."""
    try:
        sandbox = await choose(
            await asyncio.to_thread(stage, packages=chosen.sandbox.packages),
            backend=chosen.sandbox.backend,
            unsafe=False,
            install=False,
        )
    except SandboxUnavailable as error:
        return problem("sandbox", "no sandbox holds on this machine", str(error))
    if left := quarantined_here():
        what = "; ".join(f"uid {each.uid}: {each.why}" for each in left)
        return problem("sandbox", f"{len(left)} slots are quarantined ({what})", "end what is left in them")
    return fine("sandbox", f"{sandbox.name} holds against the canary")


async def check_model(model: ModelSettings) -> Finding:
    """Whether the endpoint of agents' model calls answers, and offers the models. Asks for no completion."""
    name = "model endpoint"
    if model.base_url is None or not model.models:
        return left_out(name, "no model endpoint is set", "give --model.base-url and --model.name")
    key = model.api_key.get_secret_value() if model.api_key else None
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    where = f"{model.base_url.rstrip('/')}/models"
    try:
        async with httpx.AsyncClient(timeout=_HTTP_DEADLINE_S) as client:
            answer = await client.get(where, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return problem(
            name, f"{where} does not answer ({type(error).__name__})", "correct --model.base-url, or start it"
        )
    if answer.status_code in (401, 403):
        return problem(name, f"{where} refuses the key ({answer.status_code})", "set model.api_key")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return fine(name, f"{model.base_url} answers, and does not list its models")
    if not answer.is_success:
        return problem(name, f"{where} answers {answer.status_code}", "look at the endpoint's own log")
    missing = sorted(set(model.models) - _listed(answer))
    if missing:
        return problem(name, f"{where} does not offer {', '.join(missing)}", "correct --model.name")
    return fine(name, f"{model.base_url} offers {', '.join(model.models)}")


def check_clock(block_at: datetime, now: datetime) -> Finding:
    """This machine's clock beside a block's, which has just come. Both aware."""
    ahead = (now - block_at).total_seconds()
    synchronise = "synchronise the clock: timedatectl set-ntp true"
    if ahead < -_BEHIND_S:
        return problem("clock", f"{-ahead:.1f} s behind the newest block", synchronise)
    if ahead > _AHEAD_S:
        return problem(
            "clock",
            f"{ahead:.1f} s ahead of a block that has just come",
            f"{synchronise}; or the node is late",
        )
    return fine("clock", f"{ahead:.1f} s after the newest block's own")


def check_permit(neuron: Neuron, graph: Metagraph) -> list[Finding]:
    """Whether the chain takes weights from this neuron."""
    permitted = [n.stake for n in graph.neurons if n.validator_permit]
    if neuron.validator_permit:
        return [fine("permit", f"uid {neuron.uid} may set weights"), fine("stake", f"{neuron.stake:,.0f}")]
    least = f" Of those that have one, the least stake is {min(permitted):,.0f}." if permitted else ""
    return [
        problem(
            "permit",
            f"uid {neuron.uid} may not set weights (a miner need not)",
            f"permits go to the largest stakes above the chain's threshold.{least}",
        ),
        problem("stake", f"{neuron.stake:,.0f}", "have stake delegated to this hotkey: btcli stake add"),
    ]


async def check_endpoint(neuron: Neuron) -> Finding:
    """Whether we answer where the metagraph says that we do."""
    name = "endpoint"
    if neuron.endpoint is None:
        return problem(
            name,
            "none is announced: miners do not find this validator",
            "run with --axon.external_ip ADDRESS",
        )
    url = neuron.endpoint.url
    opening = "is the validator running, with --axon.ip 0.0.0.0, and its port open to the world?"
    try:
        async with httpx.AsyncClient(timeout=_HTTP_DEADLINE_S, trust_env=False) as client:
            hotkey = (await client.get(f"{url}/healthz")).raise_for_status().json()["hotkey"]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return problem(
            name, f"nothing answers at the announced {url} from here ({type(error).__name__})", opening
        )
    except (ValueError, KeyError, TypeError):
        return problem(name, f"what answers at the announced {url} is no validator", opening)
    if hotkey != neuron.hotkey:
        return problem(
            name, f"at the announced {url} answers another hotkey, {hotkey}", "announce the right address"
        )
    return fine(name, f"we answer at {url}, seen from here")


_ON_CHAIN = ("chain", "clock", "registration", "permit", "stake", "endpoint", "weights")


async def _on_chain(chosen: Settings, wallet: Wallet | None) -> AsyncIterator[Finding]:
    """The checks that need the chain, as far as one leads to the next."""
    done: set[str] = set()
    why, remedy = "the check before it failed", "mend that first"
    if not chosen.chain.netuid:
        why, remedy = "no subnet was named", "give --netuid, --subtensor.network and --wallet.name"
    else:
        async with chain_of(chosen.chain) as chain:
            try:
                async with asyncio.timeout(_CHECK_DEADLINE_S):
                    head = await chain.head()
                    spec = await chain.spec_version()
                    detail = f"{chosen.chain.network} answers: block {head.number}, spec {spec}"
                    yield fine("chain", detail)
                    done.add("chain")
                    with contextlib.suppress(ChainUnavailable):
                        head = await chain.wait_for_block(head.number + 1, deadline_s=_NEXT_BLOCK_S)
                    yield check_clock(head.timestamp, datetime.now(UTC))
                    done.add("clock")
                    graph = await chain.metagraph()
                    if wallet is not None:
                        async for finding in _of_hotkey(chain, graph, wallet, chosen):
                            done.add(finding.check)
                            yield finding
            except (ChainError, TimeoutError) as error:
                check = next(name for name in _ON_CHAIN if name not in done)
                yield problem(
                    check, str(error) or "it took too long", "check --subtensor.network and --netuid"
                )
                done.add(check)
    for check in _ON_CHAIN:
        if check not in done:
            yield left_out(check, why, remedy)


async def _of_hotkey(
    chain: Chain, graph: Metagraph, wallet: Wallet, chosen: Settings
) -> AsyncIterator[Finding]:
    hotkey = wallet.hotkey.ss58_address
    neuron = graph.of(hotkey)
    if neuron is None:
        yield problem(
            "registration",
            f"{hotkey} has no uid on subnet {chosen.chain.netuid}",
            f"btcli tx burned-register --netuid {chosen.chain.netuid}",
        )
        return
    yield fine("registration", f"uid {neuron.uid} since block {neuron.registered_at}")
    for finding in check_permit(neuron, graph):
        yield finding
    yield await check_endpoint(neuron)
    yield await _weights(chain, hotkey)


async def _weights(chain: Chain, hotkey: str) -> Finding:
    demanded, ours = await chain.newest_version_key(), version_key()
    if demanded > ours:
        return problem(
            "weights",
            f"the subnet takes weights of version {demanded} and newer, and this is {ours}",
            "upgrade this program",
        )
    standing = await chain.standing(hotkey)
    how = "sealed (commit-reveal)" if standing.commit_reveal else "in the clear"
    detail = f"{how}, last set {standing.blocks_since_update} blocks ago"
    if overdue(standing):
        return problem(
            "weights",
            f"{detail}; after {standing.activity_cutoff} a validator is inactive",
            "look for errors in the validator's log",
        )
    return fine("weights", detail)


async def _in_time(check: str, look: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        async with asyncio.timeout(_CHECK_DEADLINE_S):
            return await look()
    except TimeoutError:
        return problem(check, f"it did not answer within {_CHECK_DEADLINE_S:.0f} s", "see why it is so slow")


def _listed(answer: httpx.Response) -> set[str]:
    """The names of an OpenAI-compatible list of models; empty for anything else."""
    try:
        return {str(model["id"]) for model in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()
