"""`arena miner`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from neurons import settings
from neurons.commands import flags
from neurons.commands.flags import (
    ChainEndpoint,
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
from neurons.miner import Sent, commit_and_submit, validator_hotkey
from neurons.running import chain_of
from neurons.sealed import OwnKey, own_key
from neurons.settings import Settings, SettingsError
from neurons.wallets import Wallet, open_wallet

app = typer.Typer(help="Register, try out and submit an agent.", no_args_is_help=True)

Agent = Annotated[Path, typer.Option("--agent", help="The agent's source file.", exists=True, dir_okay=False)]
ApiUrl = Annotated[str, typer.Option("--api.url", help="The validator's address.")]
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


@app.command("register")
def register(
    netuid: Netuid = None,
    network: Network = None,
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    logging_info: LoggingInfo = False,
    logging_debug: LoggingDebug = False,
    logging_trace: LoggingTrace = False,
) -> None:
    """Register the hotkey on the subnet, paying the burn price. Without effect when it is registered."""
    told = flags.level(info=logging_info, debug=logging_debug, trace=logging_trace)
    chosen, wallet = _chosen(
        flags.chain(netuid, network, chain_endpoint), wallet_name, wallet_hotkey, wallet_path, told
    )

    async def work() -> int:
        async with chain_of(chosen.chain) as chain:
            return await chain.register(wallet)

    uid = asyncio.run(work())
    typer.echo(f"{wallet.hotkey.ss58_address} has uid {uid} on subnet {chosen.chain.netuid}")


@app.command("submit")
def submit(
    agent: Agent,
    api_url: ApiUrl,
    name: Name = None,
    key_file: KeyFile = None,
    key_endpoint: KeyEndpoint = None,
    netuid: Netuid = None,
    network: Network = None,
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    logging_info: LoggingInfo = False,
    logging_debug: LoggingDebug = False,
    logging_trace: LoggingTrace = False,
    as_json: Json = False,
) -> None:
    """Commit to the agent's source on chain, and send it to a validator, signed."""
    told = flags.level(info=logging_info, debug=logging_debug, trace=logging_trace)
    chosen, wallet = _chosen(
        flags.chain(netuid, network, chain_endpoint), wallet_name, wallet_hotkey, wallet_path, told
    )
    own = _own_key(key_file, key_endpoint)
    sent = asyncio.run(_send(chosen, wallet, agent, name or agent.stem, api_url, own, register=False))
    _tell(sent, as_json)


@app.command("run")
def run(
    agent: Agent,
    api_url: ApiUrl,
    name: Name = None,
    key_file: KeyFile = None,
    key_endpoint: KeyEndpoint = None,
    netuid: Netuid = None,
    network: Network = None,
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    logging_info: LoggingInfo = False,
    logging_debug: LoggingDebug = False,
    logging_trace: LoggingTrace = False,
    as_json: Json = False,
) -> None:
    """Register if needed, commit on chain, and submit: all that a miner has to do. Safe to repeat."""
    told = flags.level(info=logging_info, debug=logging_debug, trace=logging_trace)
    chosen, wallet = _chosen(
        flags.chain(netuid, network, chain_endpoint), wallet_name, wallet_hotkey, wallet_path, told
    )
    own = _own_key(key_file, key_endpoint)
    sent = asyncio.run(_send(chosen, wallet, agent, name or agent.stem, api_url, own, register=True))
    _tell(sent, as_json)


app.command("run-local")(run_local)


def _chosen(
    chain: dict[str, Any], name: str | None, hotkey: str | None, path: Path | None, level: str | None
) -> tuple[Settings, Wallet]:
    chosen = settings.load(
        {
            "chain": chain,
            "wallet": {"name": name, "hotkey": hotkey, "path": path},
            "logging": {"level": level},
        }
    )
    flags.tell(chosen.logging)
    if not chosen.chain.netuid:
        raise SettingsError("which subnet? give --netuid")
    return chosen, open_wallet(chosen.wallet.name, chosen.wallet.hotkey, path=chosen.wallet.path)


async def _send(
    chosen: Settings,
    wallet: Wallet,
    agent: Path,
    name: str,
    api_url: str,
    own: OwnKey | None,
    *,
    register: bool,
) -> Sent:
    source = await asyncio.to_thread(agent.read_bytes)
    async with chain_of(chosen.chain) as chain:
        receiver = await validator_hotkey(api_url)
        if register:
            await chain.register(wallet)
        return await commit_and_submit(
            chain, wallet, source=source, name=name, api_url=api_url, receiver=receiver, own_key=own
        )


def _own_key(file: Path | None, endpoint: str | None) -> OwnKey | None:
    """The miner's key: from a file, as every user of a machine can read what stands on a command line."""
    if (file is None) != (endpoint is None):
        raise SettingsError("a key of your own takes both --key.file and --key.endpoint")
    if file is None or endpoint is None:
        return None
    return own_key(endpoint, file.read_text(encoding="utf-8", errors="replace"))


def _tell(sent: Sent, as_json: bool) -> None:
    if as_json:
        typer.echo(sent.receipt.model_dump_json(indent=2))
    else:
        typer.echo(
            f"submission {sent.receipt.submission_id}: sha256 {sent.sha256}, committed in block "
            f"{sent.receipt.commitment_block}; the {sent.receipt.paid_by} pays for its model"
        )
