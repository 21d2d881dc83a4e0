"""Flags that several commands share, written as Bittensor's own tools write them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where everything is kept.")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database-url", help="A PostgreSQL URL instead of the embedded server.")
]
Netuid = Annotated[int | None, typer.Option("--netuid", help="The subnet.")]
Network = Annotated[
    str | None,
    typer.Option("--subtensor.network", envvar="BT_NETWORK", help="finney, test, local or a ws:// address."),
]
WalletName = Annotated[str | None, typer.Option("--wallet.name", envvar="BT_WALLET")]
WalletHotkey = Annotated[str | None, typer.Option("--wallet.hotkey", envvar="BT_WALLET_HOTKEY")]
WalletPath = Annotated[Path | None, typer.Option("--wallet.path", envvar="BT_WALLET_PATH")]
Json = Annotated[bool, typer.Option("--json", help="Print the result for machines.")]
