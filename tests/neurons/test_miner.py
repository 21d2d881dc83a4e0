from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI

from neurons.chain import Chain
from neurons.miner import Sent, SubmissionRefused, ValidatorUnreachable, commit_and_submit, validator_hotkey
from neurons.serving import serving
from neurons.wallets import Wallet
from storage.database import Database
from tests.neurons.parts import validator_of

SOURCE = b"def solve(problem, tools, llm):\n    tools.terminate()\n"
NewWallet = Callable[[], Wallet]


@dataclass(frozen=True)
class Miner:
    """A registered miner and the validator it sends to."""

    chain: Chain
    wallet: Wallet
    api_url: str
    receiver: str

    async def send(self, source: bytes = SOURCE, *, name: str = "agent", receiver: str | None = None) -> Sent:
        return await commit_and_submit(
            self.chain,
            self.wallet,
            source=source,
            name=name,
            api_url=self.api_url,
            receiver=receiver or self.receiver,
        )

    async def committed(self) -> int | None:
        found = await self.chain.commitment(self.wallet.hotkey.ss58_address)
        return None if found is None else found.block


@pytest.fixture
async def miner(
    database: Database, chain: Chain, new_wallet: NewWallet, tmp_path: Path
) -> AsyncIterator[Miner]:
    validator = validator_of(database, chain, new_wallet(), tmp_path)
    wallet = new_wallet()
    await chain.register(wallet)
    async with serving(validator.app(), "127.0.0.1", 0) as url:
        yield Miner(chain, wallet, url, validator.hotkey)


@pytest.fixture
async def something_else() -> AsyncIterator[str]:
    """A server that is no validator."""
    app = FastAPI()

    @app.get("/healthz")
    async def health() -> str:
        return "ok"

    async with serving(app, "127.0.0.1", 0) as url:
        yield url


async def test_a_validator_says_whom_to_sign_for(miner: Miner) -> None:
    assert await validator_hotkey(miner.api_url) == miner.receiver


async def test_a_source_is_committed_before_it_is_sent_and_only_once(miner: Miner) -> None:
    first = await miner.send()
    block = await miner.committed()
    assert first.receipt.new
    assert first.receipt.commitment_block == block
    assert first.receipt.source_sha256 == first.sha256
    again = await miner.send()
    assert not again.receipt.new
    assert again.receipt.submission_id == first.receipt.submission_id
    assert await miner.committed() == block


async def test_another_source_is_committed_anew_and_a_refusal_says_why(miner: Miner) -> None:
    await miner.send()
    block = await miner.committed()
    with pytest.raises(SubmissionRefused) as refusal:
        await miner.send(SOURCE + b"# better\n")
    assert refusal.value.code == "cooling_down"
    assert refusal.value.detail
    assert str(refusal.value) == f"{refusal.value.detail} (cooling_down)"
    assert (await miner.committed() or 0) > (block or 0)


@pytest.mark.parametrize(
    ("source", "code"), [(b"def solve(:", "does_not_parse"), (b"\xff", "not_utf8")], ids=["syntax", "bytes"]
)
async def test_what_the_validator_refuses_keeps_its_code(source: bytes, code: str, miner: Miner) -> None:
    with pytest.raises(SubmissionRefused) as refusal:
        await miner.send(source)
    assert refusal.value.code == code


async def test_a_request_signed_for_another_validator_is_refused(miner: Miner) -> None:
    with pytest.raises(SubmissionRefused) as refusal:
        await miner.send(receiver=miner.wallet.hotkey.ss58_address)
    assert refusal.value.code == "bad_signature"


@pytest.mark.parametrize("name", ["Zoë", "two\nlines"])
async def test_a_name_that_no_header_can_carry_is_refused_before_anything_is_committed(
    name: str, miner: Miner
) -> None:
    with pytest.raises(SubmissionRefused, match="--name"):
        await miner.send(name=name)
    assert await miner.committed() is None


async def test_a_server_that_is_no_validator_is_told_apart(something_else: str) -> None:
    with pytest.raises(ValidatorUnreachable, match=r"something else.*--api\.url"):
        await validator_hotkey(something_else)


async def test_a_refusal_in_no_known_form_keeps_its_status(
    something_else: str, chain: Chain, new_wallet: NewWallet
) -> None:
    wallet = new_wallet()
    await chain.register(wallet)
    with pytest.raises(SubmissionRefused) as refusal:
        await Miner(chain, wallet, something_else, wallet.hotkey.ss58_address).send()
    assert refusal.value.code == "http_404"
