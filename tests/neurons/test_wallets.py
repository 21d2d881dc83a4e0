from __future__ import annotations

import stat
from pathlib import Path

import pytest

from neurons.wallets import NotADemoChain, WalletMissing, demo_wallet, is_local, open_wallet

LOCAL = "ws://127.0.0.1:9944"


def test_a_demo_wallet_is_the_same_when_asked_for_again(tmp_path: Path) -> None:
    first = demo_wallet("miner", tmp_path, network=LOCAL)
    again = demo_wallet("miner", tmp_path, network=LOCAL)
    assert first.hotkey.ss58_address == again.hotkey.ss58_address
    assert first.coldkey.ss58_address == again.coldkey.ss58_address
    assert first.coldkey.ss58_address != first.hotkey.ss58_address


def test_making_a_demo_wallet_shows_no_mnemonic_and_keeps_keys_private(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    demo_wallet("miner", tmp_path, network=LOCAL)
    assert capfd.readouterr() == ("", "")
    for key in (tmp_path / "miner" / "coldkey", tmp_path / "miner" / "hotkeys" / "default"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["miner"]


@pytest.mark.parametrize(
    "network", ["finney", "test", "local", "wss://entrypoint.example:443", "ws://10.0.0.7:9944", "127.0.0.1"]
)
def test_no_demo_keys_are_made_for_a_chain_that_may_be_real(tmp_path: Path, network: str) -> None:
    with pytest.raises(NotADemoChain, match="btcli wallet create"):
        demo_wallet("miner", tmp_path, network=network)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("network", [LOCAL, "ws://localhost:1", "ws://[::1]:9944"])
def test_loopback_urls_are_local(network: str) -> None:
    assert is_local(network)


def test_a_missing_wallet_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(WalletMissing, match=str(tmp_path)):
        open_wallet("nobody", path=tmp_path)


def test_a_validator_opens_its_wallet_without_the_coldkey_file(tmp_path: Path) -> None:
    made = demo_wallet("val", tmp_path, network=LOCAL)
    (tmp_path / "val" / "coldkey").unlink()
    assert open_wallet("val", path=tmp_path).hotkey.ss58_address == made.hotkey.ss58_address
