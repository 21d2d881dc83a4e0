"""Wallets, opened without a prompt.

Keys are made here only for demos, only for a chain on this machine, and unencrypted; for anything else `btcli
wallet create` is the way. Mnemonics are never shown, logged or kept: a demo key can only be made anew.
"""

from __future__ import annotations

import ipaddress
import shutil
import tempfile
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import bittensor


class Signer(Protocol):
    """A key that signs: what the SDK asks of one."""

    @property
    def ss58_address(self) -> str:
        """The account's address."""

    def sign(self, payload: bytes) -> bytes:
        """A signature of the payload."""


class Wallet(Protocol):
    """A coldkey that owns and pays, and a hotkey that acts. `bittensor.Wallet` is one."""

    @property
    def coldkey(self) -> Signer:
        """Opens the coldkey; asks for a password when its file is encrypted."""

    @property
    def hotkey(self) -> Signer:
        """Opens the hotkey."""


class WalletMissing(FileNotFoundError):
    """There is no such wallet or hotkey."""


class NotADemoChain(ValueError):
    """Demo keys were asked for on a chain that may be real."""


def open_wallet(name: str, hotkey: str = "default", *, path: Path | None = None) -> Wallet:
    """The wallet of that name and hotkey. The coldkey's file need not be there: a validator runs without.

    `path` is the folder of wallets, by default the SDK's. Raises WalletMissing.
    """
    wallet = _named(name, hotkey, path)
    if not Path(wallet.hotkey_file.path).is_file():
        raise WalletMissing(
            f"no hotkey {hotkey!r} of wallet {name!r} at {wallet.hotkey_file.path}: create it with "
            f"`btcli wallet create` or name another"
        )
    return wallet  # type: ignore[no-any-return, unused-ignore]


def demo_wallet(name: str, folder: Path, *, network: str) -> Wallet:
    """The wallet of that name in `folder`, made when it is not there, with unencrypted keys.

    `network` is what the SDK connects to. Raises NotADemoChain unless that is this machine.
    """
    if not is_local(network):
        raise NotADemoChain(
            f"demo wallets are for a chain on this machine, not for {network!r}: "
            "create one with `btcli wallet create`"
        )
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Made aside and moved into place whole, so that a crash leaves no wallet with half its keys.
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".making-"))
        try:
            made = _named(name, "default", aside)
            made.create_new_coldkey(use_password=False, suppress=True)
            made.create_new_hotkey(use_password=False, suppress=True)
            (aside / name).rename(folder / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return open_wallet(name, path=folder)


def is_local(network: str) -> bool:
    """Whether the network is a WebSocket URL whose host is this machine's loopback. Names never are."""
    url = urlsplit(network)
    if url.scheme not in ("ws", "wss") or url.hostname is None:
        return False
    if url.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.hostname).is_loopback
    except ValueError:
        return False


def _named(name: str, hotkey: str, path: Path | None) -> bittensor.Wallet:
    if path is None:
        return bittensor.Wallet(name, hotkey)
    return bittensor.Wallet(name, hotkey, path=str(path))
