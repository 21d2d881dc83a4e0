"""`arena localnet`."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from neurons.commands.flags import Json
from neurons.localnet.door import Door
from neurons.localnet.faults import KINDS, Fault
from neurons.localnet.subnet import RAO_PER_TAO, SubnetOptions
from neurons.localnet.yuma import U16_MAX

app = typer.Typer(help="A local chain that the Bittensor SDK and btcli talk to.", no_args_is_help=True)

DEFAULT_PORT = 9944
Url = Annotated[str, typer.Option("--url", help="Where the node listens.")]
Port = Annotated[int, typer.Option("--port", help="Where to listen, on 127.0.0.1; 0 takes a free one.")]
SubnetSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=f"An option of the subnet: {', '.join(f.name for f in fields(SubnetOptions))}.",
    ),
]
Owner = Annotated[str, typer.Option("--owner", help="Key URI or SS58 address of the subnet's owner.")]
Address = Annotated[str, typer.Argument(help="An SS58 address, or a key URI such as //Alice.")]
_TABLE_WIDTH = 150
_LOCAL = f"ws://127.0.0.1:{DEFAULT_PORT}"


@app.command("start")
def start(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where the chain is kept; without it, in memory.")
    ] = None,
    port: Port = DEFAULT_PORT,
    netuid: Annotated[int | None, typer.Option("--netuid", help="Create this subnet in a new chain.")] = None,
    owner: Owner = "//Owner",
    chosen: SubnetSettings = None,
    fund: Annotated[
        list[str] | None,
        typer.Option("--fund", metavar="ADDRESS=TAO", help="An account of a new chain; may be repeated."),
    ] = None,
    block_time: Annotated[
        float, typer.Option("--block-time", min=0.0, help="Seconds; 0: a block when there is work for one.")
    ] = 0.25,
    finality_lag: Annotated[
        int, typer.Option("--finality-lag", min=0, help="How many of the newest blocks are not final.")
    ] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Count time in blocks: the same calls make the same chain.")
    ] = None,
    faults: Annotated[bool, typer.Option("--faults", help="Take orders to misbehave.")] = False,
) -> None:
    """Run a node in the foreground, until it is told to stop. It goes on from its last block."""
    from neurons.localnet import __main__ as node

    arguments = [f"--port={port}", f"--owner={owner}", f"--block-time={block_time}"]
    arguments += [f"--finality-lag={finality_lag}"]
    arguments += ["--faults"] if faults else []
    arguments += [] if seed is None else [f"--seed={seed}"]
    arguments += [] if data_dir is None else [f"--state={data_dir / 'chain.sqlite'}"]
    arguments += [] if netuid is None else [f"--netuid={netuid}"]
    arguments += [f"--fund={account}" for account in fund or ()]
    for name, value in _subnet_settings(chosen).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            arguments.append(f"--{flag}={value}")
    if status := node.main(arguments):
        raise typer.Exit(status)


@app.command("fund")
def fund(address: Address, tao: float, url: Url = _LOCAL) -> None:
    """Give an account TAO, out of nothing."""
    block = Door(url).fund(_address(address), tao)
    typer.echo(f"{_address(address)} has {tao:g} TAO more, in block {block}")


@app.command("stake")
def stake(
    hotkey: Address,
    tao: float,
    netuid: Annotated[int, typer.Option("--netuid", help="The subnet.")],
    url: Url = _LOCAL,
) -> None:
    """Set a hotkey's stake on a subnet, out of nothing; enough of it is a validator permit."""
    block = Door(url).set_stake(netuid, _address(hotkey), tao)
    typer.echo(f"{_address(hotkey)} has {tao:g} staked on subnet {netuid}, in block {block}")


@app.command("subnet")
def subnet(netuid: int, owner: Owner = "//Owner", chosen: SubnetSettings = None, url: Url = _LOCAL) -> None:
    """Create a subnet; its owner is uid 0, and what is paid to it is burned."""
    options, address = SubnetOptions(**_subnet_settings(chosen)), _address(owner)
    block = Door(url).create_subnet(netuid, owner_coldkey=address, owner_hotkey=address, options=options)
    typer.echo(f"subnet {netuid} exists since block {block}")


@app.command("show")
def show(
    netuid: Annotated[int | None, typer.Option("--netuid", help="Its neurons, too.")] = None,
    url: Url = _LOCAL,
    as_json: Json = False,
) -> None:
    """The chain, and what became of a subnet's neurons in its last epoch."""
    door = Door(url)
    info, neurons = door.info(), [] if netuid is None else door.show(netuid)
    if as_json:
        typer.echo(json.dumps({**info, "neurons": neurons} if netuid is not None else info, indent=2))
        return
    typer.echo(
        f"block {info['block']}, runtime {info['spec_version']}, subnets "
        f"{', '.join(map(str, info['netuids'])) or 'none'}, genesis {info['genesis']}"
    )
    if netuid is not None:
        # A log or a pipe has no width: what is cut there is lost.
        width = None if sys.stdout.isatty() else _TABLE_WIDTH
        Console(width=width).print(_table(netuid, neurons))


@app.command("fault")
def fault(
    kind: Annotated[str, typer.Argument(help="; ".join(f"{k}: {v}" for k, v in KINDS.items()) + ".")],
    method: Annotated[
        str, typer.Option("--method", help="RPC methods, or for `fail` calls, as a pattern: author_submit*.")
    ] = "*",
    times: Annotated[int, typer.Option("--times", help="For so many requests; 0: until cleared.")] = 1,
    seconds: Annotated[float, typer.Option("--seconds", help="Of `slow`.")] = 0.0,
    error: Annotated[str, typer.Option("--error", help="Of `fail`: Pallet.Name.")] = "",
    entry: Annotated[str, typer.Option("--entry", help="Of `missing`: Pallet.Item.")] = "",
    url: Url = _LOCAL,
) -> None:
    """Have the node misbehave; `clear` ends it. The node must have been started with --faults."""
    door = Door(url)
    if kind == "clear":
        typer.echo(f"{door.clear_faults()} faults cleared")
        return
    try:
        wanted = Fault(kind, method=method, times=times, seconds=seconds, error=error, entry=entry)
    except ValueError as refused:
        raise typer.BadParameter(str(refused)) from refused
    for waiting in door.fault(wanted):
        typer.echo(json.dumps(waiting))


@app.command("reorg")
def reorg(url: Url = _LOCAL) -> None:
    """Replace the newest block. It must not be final: see --finality-lag of `start`."""
    typer.echo(f"the newest block is now {Door(url).reorg()}")


@app.command("advance")
def advance(blocks: Annotated[int, typer.Argument(min=1)] = 1, url: Url = _LOCAL) -> None:
    """Make blocks now."""
    typer.echo(f"block {Door(url).advance(blocks)}")


@app.command("upgrade")
def upgrade(
    spec_version: int,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="A storage entry to take away: Pallet.Item.")
    ] = None,
    url: Url = _LOCAL,
) -> None:
    """Raise the runtime's version, as an upgrade of the chain does."""
    typer.echo(f"runtime {spec_version} since block {Door(url).upgrade(spec_version, without or ())}")


@app.command("pulse")
def pulse(reveal_round: int, signature: str, url: Url = _LOCAL) -> None:
    """Let the chain know drand's signature of a round, so that it opens what is sealed to it."""
    typer.echo(f"round {reveal_round} is known since block {Door(url).pulse(reveal_round, signature)}")


def _address(text: str) -> str:
    from neurons.localnet.__main__ import address

    try:
        return address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _subnet_settings(chosen: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE as the option's own type."""
    defaults = {f.name: getattr(SubnetOptions(), f.name) for f in fields(SubnetOptions)}
    settings: dict[str, Any] = {}
    for text in chosen or ():
        name, _, value = text.partition("=")
        if name not in defaults:
            raise typer.BadParameter(f"a subnet has no option {name!r}; it has {', '.join(defaults)}")
        kind = type(defaults[name])
        try:
            settings[name] = _TRUTH[value.lower()] if kind is bool else kind(value)
        except (ValueError, KeyError) as error:
            raise typer.BadParameter(f"{value!r} is not a value for {name} ({kind.__name__})") from error
    return settings


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _table(netuid: int, neurons: list[dict[str, Any]]) -> Table:
    table = Table(title=f"subnet {netuid}", title_justify="left")
    for name in (
        "uid",
        "hotkey",
        "stake",
        "permit",
        "incentive",
        "dividends",
        "consensus",
        "trust",
        "updated",
    ):
        table.add_column(name, justify="left" if name == "hotkey" else "right")
    for n in neurons:
        shares = (n[name] / U16_MAX for name in ("incentive", "dividends", "consensus", "validator_trust"))
        table.add_row(
            str(n["uid"]),
            n["hotkey"],
            f"{n['stake'] / RAO_PER_TAO:g}",
            "yes" if n["validator_permit"] else "",
            *(f"{share:.4f}" for share in shares),
            str(n["last_update"]),
        )
    return table
