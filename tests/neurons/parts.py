"""A validator on the local chain, with all but a model provider."""

from __future__ import annotations

from pathlib import Path

from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from neurons.chain import Chain
from neurons.validator import Parts, Validator
from neurons.wallets import Wallet
from storage.database import Database


def validator_of(database: Database, chain: Chain, wallet: Wallet, folder: Path) -> Validator:
    """A validator that has nothing to play yet."""
    return Validator(
        Parts(
            database=database,
            rules=Rules(),
            environments={},
            sandbox=SubprocessSandbox(stage()),
            upstream=Upstream("http://127.0.0.1:9/v1", None, ("none",)),
            chain=chain,
            wallet=wallet,
            socket_root=folder,
            slots=1,
        )
    )
