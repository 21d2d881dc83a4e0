"""A miner's side: prove on chain that the source existed, then send it, signed.

The commitment comes first because priority is decided by its block: of two like submissions the earlier
block wins, whatever arrived first over HTTP.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

import httpx
from pydantic import ValidationError

from arena.api.schemas import Health, SubmissionReceipt
from neurons.chain_types import Subnet
from neurons.sealed import OwnKey, sealed_for
from neurons.signing import HotkeyAuth
from neurons.wallets import Wallet

_TIMEOUT_S = 60.0
_NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
"""What httpx raises when nobody answers, or for an address at which nobody can."""


class SubmissionRefused(RuntimeError):
    """The validator refused; `code` is its typed reason, `detail` says what to do."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({code})")
        self.code = code
        self.detail = detail


class ValidatorUnreachable(ConnectionError):
    """There is no validator at that address, or it does not speak this protocol."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A submission that a validator took."""

    receipt: SubmissionReceipt
    sha256: str


async def validator_hotkey(api_url: str) -> str:
    """Who answers at `api_url`: the receiver to sign for. Raises ValidatorUnreachable."""
    try:
        async with httpx.AsyncClient(base_url=api_url, timeout=_TIMEOUT_S) as client:
            answer = await client.get("/healthz")
            answer.raise_for_status()
            return Health.model_validate_json(answer.content).hotkey
    except (*_NO_ANSWER, ValidationError) as error:
        raise _unreachable(api_url, error) from error


async def commit_and_submit(
    chain: Subnet,
    wallet: Wallet,
    *,
    source: bytes,
    name: str,
    api_url: str,
    receiver: str,
    own_key: OwnKey | None = None,
) -> Sent:
    """Commit to the source's SHA-256 on chain, unless that stands already, and submit it to one validator.

    Raises what `commit` and `send` raise.
    """
    _check_name(name)
    await commit(chain, wallet, source)
    return await send(wallet, source=source, name=name, api_url=api_url, receiver=receiver, own_key=own_key)


async def commit(chain: Subnet, wallet: Wallet, source: bytes) -> int:
    """Commit the hotkey to the source's SHA-256, unless that stands already; returns the block.

    Raises ChainError.
    """
    digest = hashlib.sha256(source).digest()
    standing = await chain.commitment(wallet.hotkey.ss58_address)
    if standing is not None and standing.content == digest:
        return standing.block
    return await chain.commit(wallet, digest)


async def send(
    wallet: Wallet,
    *,
    source: bytes,
    name: str,
    api_url: str,
    receiver: str,
    own_key: OwnKey | None = None,
) -> Sent:
    """Submit a source that is committed to already. Sending the same one again gives the first receipt.

    `receiver` is the validator's hotkey. With `own_key`, the miner pays for the model: the key is sealed so
    that only the validator can open it, and one that is sent later takes its place. Raises SubmissionRefused,
    ValidatorUnreachable and KeyNotSealed.
    """
    _check_name(name)
    digest = hashlib.sha256(source).hexdigest()
    headers = {"X-Agent-Name": name}
    if own_key is not None:
        headers["X-Sealed-Key"] = await sealed_for(
            api_url, own_key, receiver, hotkey=wallet.hotkey.ss58_address, source_sha256=digest
        )
    try:
        async with httpx.AsyncClient(
            base_url=api_url, timeout=_TIMEOUT_S, auth=HotkeyAuth(wallet, receiver)
        ) as client:
            answer = await client.post("/v1/submissions", content=source, headers=headers)
        if answer.is_success:
            return Sent(SubmissionReceipt.model_validate_json(answer.content), digest)
    except (*_NO_ANSWER, ValidationError) as error:
        raise _unreachable(api_url, error) from error
    raise _refusal(answer)


async def withdraw_from(api_url: str, wallet: Wallet, receiver: str, submission_id: UUID) -> None:
    """Take one of our submissions out of the races to come.

    Raises SubmissionRefused, ValidatorUnreachable.
    """
    try:
        async with httpx.AsyncClient(
            base_url=api_url, timeout=_TIMEOUT_S, auth=HotkeyAuth(wallet, receiver)
        ) as client:
            answer = await client.post(f"/v1/submissions/{submission_id}/withdraw")
    except _NO_ANSWER as error:
        raise _unreachable(api_url, error) from error
    if not answer.is_success:
        raise _refusal(answer)


def _check_name(name: str) -> None:
    if not (name.isascii() and name.isprintable()):
        raise SubmissionRefused(
            "bad_name", f"the agent's name {name!r} goes into a header: give a --name of ASCII characters"
        )


def _unreachable(api_url: str, error: Exception) -> ValidatorUnreachable:
    said = "it answers something else" if isinstance(error, ValidationError) else str(error)
    return ValidatorUnreachable(
        f"no validator answers at {api_url} ({said or type(error).__name__}); check --api.url"
    )


def _refusal(answer: httpx.Response) -> SubmissionRefused:
    try:
        problem = answer.json()
        return SubmissionRefused(str(problem["code"]), str(problem["detail"]))
    except (ValueError, KeyError, TypeError):
        return SubmissionRefused(f"http_{answer.status_code}", answer.text[:200])


if __name__ == "__main__":  # `python neurons/miner.py` is `arena miner run`
    import sys

    from neurons.cli import main

    sys.argv = ["arena", "miner", "run", *sys.argv[1:]]
    main()
