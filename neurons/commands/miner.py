"""`arena miner`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from arena.api.schemas import Feedback
from neurons import settings
from neurons.chain import Chain
from neurons.commands import flags
from neurons.commands.flags import (
    AxonIp,
    AxonPort,
    ChainEndpoint,
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
from neurons.commands.run_local import run_local
from neurons.fetching import FetchFailed
from neurons.miner import Sent, SubmissionRefused, commit, commit_and_submit, validator_hotkey, withdraw_from
from neurons.mining.door import create_door
from neurons.mining.node import Node
from neurons.mining.sending import Delivery, found, send_to_all
from neurons.mining.showing import delivery_table, feedback_table, show, standing_table
from neurons.mining.validators import Asking, Validator, digest_of, of_all, permitted
from neurons.rounds import no_restart_mends
from neurons.running import chain_of, endpoint_of
from neurons.sealed import OwnKey, own_key
from neurons.serving import serving
from neurons.settings import Settings, SettingsError
from neurons.stopping import TRY_LATER, until_stopped
from neurons.supervision import Part, together
from neurons.user_errors import USER_STATUS
from neurons.wallets import Wallet, is_local, open_wallet

app = typer.Typer(help="Register, try out and submit an agent.", no_args_is_help=True)

Agent = Annotated[Path, typer.Option("--agent", help="The agent's source file.", exists=True, dir_okay=False)]
ApiUrl = Annotated[
    str | None,
    typer.Option(
        "--api.url", help="The address of one validator; without it, all that hold a permit are asked."
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="What the agent is called on the leaderboard.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key.file",
        help="A file with a model key of your own, which then pays for the agent's calls. It is sealed so "
        "that only the validator can open it. Sent with the same agent again, it replaces the one before.",
        exists=True,
        dir_okay=False,
    ),
]
KeyEndpoint = Annotated[
    str | None, typer.Option("--key.endpoint", help="Whose key it is, as the validator names its endpoints.")
]
Register = Annotated[
    bool, typer.Option("--register", help="Register first, paying the burn price from the coldkey.")
]


@dataclass(frozen=True, slots=True)
class _Miner:
    """Who does it, and on which subnet."""

    chosen: Settings
    wallet: Wallet

    @property
    def hotkey(self) -> str:
        return self.wallet.hotkey.ss58_address

    def on_chain(self) -> Chain:
        return chain_of(self.chosen.chain)

    def asking(self) -> Asking:
        return Asking(self.wallet, local=is_local(self.chosen.chain.network))


_AXON = ("axon_ip", "axon_port", "external_ip", "external_port")


def _as_a_miner(
    *,
    netuid: Netuid = None,
    network: Network = None,
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    logging_info: LoggingInfo = False,
    logging_debug: LoggingDebug = False,
    logging_trace: LoggingTrace = False,
    api: dict[str, Any] | None = None,
) -> _Miner:
    """Whom these flags name."""
    level = flags.level(info=logging_info, debug=logging_debug, trace=logging_trace)
    chosen = settings.load(
        {
            "chain": flags.chain(netuid, network, chain_endpoint),
            "wallet": {"name": wallet_name, "hotkey": wallet_hotkey, "path": wallet_path},
            "api": api or {},
            "logging": {"level": level},
        }
    )
    flags.tell(chosen.logging)
    if not chosen.chain.netuid:
        raise SettingsError("which subnet? give --netuid")
    wallet = open_wallet(chosen.wallet.name, chosen.wallet.hotkey, path=chosen.wallet.path)
    return _Miner(chosen, wallet)


_SHARED = {
    name: parameter
    for name, parameter in inspect.signature(_as_a_miner, eval_str=True).parameters.items()
    if name != "api"
}


def _command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Offer a function of a `_Miner` and options as a command, with the flags that name that miner."""

    def offered(work: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(work, eval_str=True).parameters.values()

        def command(**given: Any) -> None:
            shared = {flag: given.pop(flag) for flag in _SHARED}
            if _AXON[0] in given:
                shared["api"] = dict(
                    zip(("host", "port", "external_ip", "external_port"), map(given.pop, _AXON), strict=True)
                )
            work(_as_a_miner(**shared), **given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *_SHARED.values())]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__ = work.__doc__
        return app.command(name)(command)

    return offered


@_command("register")
def register(miner: _Miner) -> None:
    """Register the hotkey on the subnet, paying the burn price. Without effect when it is registered."""

    async def work() -> int:
        async with miner.on_chain() as chain:
            return await chain.register(miner.wallet)

    uid = asyncio.run(work())
    typer.echo(f"{miner.hotkey} has uid {uid} on subnet {miner.chosen.chain.netuid}")


@_command("commit")
def commit_agent(miner: _Miner, agent: Agent, as_json: Json = False) -> None:
    """Commit to the agent's source on chain, and send it to nobody yet: the oldest claim counts."""

    async def work() -> tuple[int, str]:
        source = await asyncio.to_thread(agent.read_bytes)
        async with miner.on_chain() as chain:
            return await commit(chain, miner.wallet, source), digest_of(source)

    block, digest = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps({"sha256": digest, "block": block}, indent=2))
    else:
        typer.echo(f"committed to {digest} in block {block}")


@_command("submit")
def submit(
    miner: _Miner,
    agent: Agent,
    api_url: ApiUrl = None,
    name: Name = None,
    key_file: KeyFile = None,
    key_endpoint: KeyEndpoint = None,
    register: Register = False,
    as_json: Json = False,
) -> None:
    """Commit to the agent's source on chain, and send it, signed, to every validator, or to one.

    Those that are down are tried again. Safe to repeat. Exit status 2 when one refused it, 75 when one was
    down.
    """
    own, named = _own_key(key_file, key_endpoint), name or agent.stem
    source = agent.read_bytes()
    if api_url is not None:
        _tell_sent(asyncio.run(_send_to_one(miner, source, named, api_url, own, register)), as_json)
        return
    console = Console(stderr=True, highlight=False)

    async def work() -> list[Delivery]:
        async with miner.on_chain() as chain:
            if register:
                await chain.register(miner.wallet)
            return await send_to_all(
                chain,
                miner.wallet,
                source=source,
                name=named,
                own_key=own,
                say=lambda d: console.print(f"{d.url}: {d.code}", markup=False),
            )

    deliveries = asyncio.run(work())
    _tell_table(
        delivery_table(deliveries),
        {"sha256": digest_of(source), "validators": [d.to_json() for d in deliveries]},
        as_json,
    )
    if any(d.took is False for d in deliveries):
        raise typer.Exit(USER_STATUS)
    if any(d.took is None for d in deliveries):
        raise typer.Exit(TRY_LATER)


@_command("run")
def run(
    miner: _Miner,
    agent: Agent,
    name: Name = None,
    register: Register = False,
    as_json: Json = False,
    axon_ip: AxonIp = None,
    axon_port: AxonPort = None,
    external_ip: ExternalIp = None,
    external_port: ExternalPort = None,
) -> None:
    """Run a node: commit to the agent's file as it changes, and serve it to validators that hold a permit.

    It tells how the agent stands with each validator, until it is stopped.
    """
    asyncio.run(until_stopped(_run_node(miner, agent, name or agent.stem, register, as_json)))


@_command("status")
def status(miner: _Miner, agent: Agent, as_json: Json = False) -> None:
    """Say where the agent's source stands with every validator."""

    async def work() -> list[Any]:
        digest = digest_of(await asyncio.to_thread(agent.read_bytes))
        asking = miner.asking()
        async with _validators(miner) as known:
            return await of_all(known, lambda validator: asking.seen(validator, digest))

    seen = asyncio.run(work())
    _tell_table(standing_table(seen), {"validators": [s.to_json() for s in seen]}, as_json)


@_command("feedback")
def feedback(miner: _Miner, agent: Agent, as_json: Json = False) -> None:
    """Say how the agent did in each phase that is over, with every validator that played it."""

    async def work() -> dict[str, list[Feedback]]:
        digest = digest_of(await asyncio.to_thread(agent.read_bytes))
        asking = miner.asking()

        async def told(validator: Validator) -> list[Feedback] | None:
            try:
                ours = await asking.submissions(validator)
                here = next((s for s in ours if s.source_sha256 == digest), None)
                return None if here is None else await asking.feedback(validator, here.submission_id)
            except FetchFailed as error:
                typer.echo(f"{validator.endpoint.url}: {error}", err=True)
                return None

        async with _validators(miner) as known:
            answers = await of_all(known, told)
        return {v.hotkey: a for v, a in zip(known, answers, strict=True) if a is not None}

    found = asyncio.run(work())
    listed = {hotkey: [f.model_dump(mode="json") for f in told] for hotkey, told in found.items()}
    _tell_table(feedback_table(found), {"validators": listed}, as_json)


@_command("withdraw")
def withdraw(miner: _Miner, agent: Agent, as_json: Json = False) -> None:
    """Take the agent out of the races to come, with every validator. It stays in those that it is in."""

    async def work() -> list[Delivery]:
        digest = digest_of(await asyncio.to_thread(agent.read_bytes))
        asking = miner.asking()

        async def told(validator: Validator) -> Delivery:
            url = validator.endpoint.url
            try:
                ours = await asking.submissions(validator)
                here = next((s for s in ours if s.source_sha256 == digest), None)
                if here is None:
                    return Delivery(validator.hotkey, url, True, "not here", "", 1)
                await withdraw_from(url, miner.wallet, validator.hotkey, here.submission_id)
            except FetchFailed as error:
                return Delivery(validator.hotkey, url, None, error.code, str(error), 1)
            except ConnectionError as error:
                return Delivery(validator.hotkey, url, None, "down", str(error), 1)
            except SubmissionRefused as refused:
                return Delivery(validator.hotkey, url, False, refused.code, refused.detail, 1)
            return Delivery(validator.hotkey, url, True, "withdrawn", "", 1)

        async with _validators(miner) as known:
            return await of_all(known, told)

    told = asyncio.run(work())
    _tell_table(delivery_table(told), {"validators": [d.to_json() for d in told]}, as_json)
    if any(d.took is False for d in told):
        raise typer.Exit(USER_STATUS)
    if any(d.took is None for d in told):
        raise typer.Exit(TRY_LATER)


app.command("run-local")(run_local)


@contextlib.asynccontextmanager
async def _validators(miner: _Miner) -> AsyncIterator[Sequence[Validator]]:
    async with miner.on_chain() as chain:
        yield await found(chain, miner.wallet)


async def _run_node(miner: _Miner, agent: Path, name: str, register: bool, as_json: bool) -> None:
    if not (name.isascii() and name.isprintable()):
        raise SettingsError(
            f"the agent's name {name!r} goes into a header: give a --name of ASCII characters"
        )
    api = miner.chosen.api
    async with miner.on_chain() as chain:
        if register:
            await chain.register(miner.wallet)
        elif await chain.registered(miner.hotkey) is None:
            raise SettingsError(
                f"hotkey {miner.hotkey} is not registered on subnet {chain.netuid} of {chain.network}: "
                "give --register, or run `arena miner register` where the coldkey is"
            )
        node = Node(
            chain,
            miner.wallet,
            agent,
            name,
            most_bytes=miner.chosen.rules.source_bytes,
            tell=lambda told: show(told, as_json=as_json),
        )

        async def door() -> None:
            serve = create_door(
                node.shelf,
                hotkey=miner.hotkey,
                permitted=lambda hotkey: permitted(chain, hotkey),
                served=node.note_served,
            )
            async with serving(serve, api.host, api.port) as url:
                typer.echo(f"node {miner.hotkey} serves its agent to validators at {url}", err=True)
                await node.keep_announced(endpoint_of(api, int(url.rpartition(":")[2])))

        parts = [
            Part("the door", door),
            Part("the commitment", node.keep_committed),
            Part("the standing", node.keep_telling),
        ]
        await together(parts, fatal=no_restart_mends)


async def _send_to_one(
    miner: _Miner, source: bytes, name: str, api_url: str, own: OwnKey | None, register: bool
) -> Sent:
    async with miner.on_chain() as chain:
        receiver = await validator_hotkey(api_url)
        if register:
            await chain.register(miner.wallet)
        return await commit_and_submit(
            chain, miner.wallet, source=source, name=name, api_url=api_url, receiver=receiver, own_key=own
        )


def _own_key(file: Path | None, endpoint: str | None) -> OwnKey | None:
    """The miner's key: from a file, as every user of a machine can read what stands on a command line."""
    if (file is None) != (endpoint is None):
        raise SettingsError("a key of your own takes both --key.file and --key.endpoint")
    if file is None or endpoint is None:
        return None
    return own_key(endpoint, file.read_text(encoding="utf-8", errors="replace"))


def _tell_table(table: Table, plain: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(plain, indent=2))
    else:
        Console(highlight=False).print(table)


def _tell_sent(sent: Sent, as_json: bool) -> None:
    if as_json:
        typer.echo(sent.receipt.model_dump_json(indent=2))
    else:
        typer.echo(
            f"submission {sent.receipt.submission_id}: sha256 {sent.sha256}, committed in block "
            f"{sent.receipt.commitment_block}; the {sent.receipt.paid_by} pays for its model"
        )
