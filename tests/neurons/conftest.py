"""A local chain for all tests of this package, with fast blocks, and wallets on it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from neurons import chain as chain_module
from neurons.chain import Chain
from neurons.localnet.launch import LocalNet
from neurons.localnet.metadata import MetadataUnavailable, ensure
from neurons.localnet.subnet import SubnetOptions
from neurons.wallets import Wallet, demo_wallet

NETUID = 2
BLOCK_TIME_S = 0.05
OPTIONS = SubnetOptions(tempo=10, weights_rate_limit=6)

_names = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _sdk_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    chain_module.keep_sdk_files_in(tmp_path_factory.mktemp("sdk"))


@pytest.fixture(scope="session")
def metadata() -> Path:
    """The runtime metadata, without which no local chain runs."""
    try:
        return ensure()
    except MetadataUnavailable as error:
        pytest.skip(f"no local chain: {error}")


@pytest.fixture(scope="session")
def localnet(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNet]:
    """A running chain with subnet NETUID."""
    log = tmp_path_factory.mktemp("localnet") / "node.log"
    with LocalNet(netuid=NETUID, options=OPTIONS, block_time_s=BLOCK_TIME_S, log=log) as net:
        yield net


@pytest.fixture
async def chain(localnet: LocalNet) -> AsyncIterator[Chain]:
    """A client of the chain."""
    async with Chain(localnet.url, NETUID) as client:
        yield client


@pytest.fixture
def new_wallet(localnet: LocalNet, tmp_path: Path) -> Callable[[], Wallet]:
    """Makes a wallet with 10 TAO."""

    def make() -> Wallet:
        wallet = demo_wallet(f"w{next(_names)}", tmp_path, network=localnet.url)
        localnet.fund(wallet.coldkey.ss58_address, 10.0)
        return wallet

    return make
