"""Flags that several commands share, written as Bittensor's own tools write them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from neurons.settings import LoggingSettings

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where everything is kept.")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database-url", help="A PostgreSQL URL instead of the embedded server.")
]
Netuid = Annotated[int | None, typer.Option("--netuid", help="The subnet.")]
Network = Annotated[
    str | None, typer.Option("--subtensor.network", help="finney, test, local or a ws:// address.")
]
ChainEndpoint = Annotated[
    str | None,
    typer.Option("--subtensor.chain_endpoint", help="A ws:// address; goes before --subtensor.network."),
]
WalletName = Annotated[str | None, typer.Option("--wallet.name")]
WalletHotkey = Annotated[str | None, typer.Option("--wallet.hotkey")]
WalletPath = Annotated[Path | None, typer.Option("--wallet.path")]
AxonIp = Annotated[
    str | None,
    typer.Option("--axon.ip", "--api.host", help="The address to listen on; 0.0.0.0 is all of them."),
]
AxonPort = Annotated[int | None, typer.Option("--axon.port", "--api.port", help="The port to listen on.")]
ExternalIp = Annotated[
    str | None, typer.Option("--axon.external_ip", help="Announced in the metagraph, for others to find us.")
]
ExternalPort = Annotated[int | None, typer.Option("--axon.external_port", help="Announced, if another.")]
LoggingInfo = Annotated[bool, typer.Option("--logging.info", help="Tell more.")]
LoggingDebug = Annotated[bool, typer.Option("--logging.debug", help="Tell a lot more.")]
LoggingTrace = Annotated[bool, typer.Option("--logging.trace", help="Tell what libraries do, too.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result for machines.")]


def level(*, info: bool, debug: bool, trace: bool) -> str | None:
    """The level that was asked for, the most telling of them; None: by other settings."""
    return "trace" if trace else "debug" if debug else "info" if info else None


def chain(netuid: int | None, network: str | None, endpoint: str | None) -> dict[str, Any]:
    """The settings of the chain that these flags give."""
    return {"netuid": netuid, "network": endpoint or network}


def tell(chosen: LoggingSettings) -> None:
    """Log as the settings want it. What a validator did is told at every level."""
    if chosen.level == "warning":
        return
    verbose = logging.INFO if chosen.level == "info" else logging.DEBUG
    logging.getLogger().setLevel(logging.INFO)
    for ours in ("arena", "judge", "neurons", "storage"):
        logging.getLogger(ours).setLevel(verbose)
    if chosen.level == "trace":
        for theirs in ("bittensor", "httpx", "uvicorn", "websockets"):
            logging.getLogger(theirs).setLevel(logging.DEBUG)
