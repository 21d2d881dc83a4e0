"""Both ends of a sealed model key: the validator announces to whom, the miner checks that and seals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from bittensor.keyfiles import Keypair
from pydantic import SecretStr, ValidationError

from arena.api.schemas import SealingKeyAnswer
from arena.sealing import Announcement, BadSeal, SealingKey, checked_key, seal, signed_text
from neurons.wallets import Wallet

_TIMEOUT_S = 30.0


class KeyNotSealed(RuntimeError):
    """A model key was not sent, because it could not be sealed for the validator; the message says why."""


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A miner's model key, and the name of the validator's endpoint that it is for."""

    endpoint: str
    key: SecretStr


def own_key(endpoint: str, written: str) -> OwnKey:
    """A key as somebody wrote it into a file. Raises KeyNotSealed."""
    try:
        return OwnKey(endpoint, checked_key(written.strip()))
    except BadSeal as error:
        raise KeyNotSealed(f"{error}; look at the file that --key.file names") from None


def announced(
    sealing: SealingKey | None, wallet: Wallet, endpoints: Mapping[str, str]
) -> Announcement | None:
    """The announcement of a sealing key, signed by the hotkey; None when there is no such key."""
    if sealing is None:
        return None
    signature = wallet.hotkey.sign(signed_text(sealing.public_key))
    return Announcement(sealing.public_key, bytes(signature).hex(), endpoints)


async def sealed_for(api_url: str, own: OwnKey, validator: str, *, hotkey: str, source_sha256: str) -> str:
    """The header that carries `own`, sealed for the hotkey `validator`. Raises KeyNotSealed."""
    try:
        async with httpx.AsyncClient(base_url=api_url, timeout=_TIMEOUT_S) as client:
            answer = await client.get("/v1/sealing-key")
        if answer.status_code == 404:
            raise KeyNotSealed("this validator takes no keys of miners: it pays for the model itself")
        answer.raise_for_status()
        offered = SealingKeyAnswer.model_validate_json(answer.content)
        signature = bytes.fromhex(offered.signature)
        ours = Keypair(ss58_address=validator).verify(signed_text(offered.public_key), signature)
    except (httpx.HTTPError, ValidationError, ValueError) as error:
        raise KeyNotSealed(f"the validator's sealing key cannot be had ({type(error).__name__})") from None
    if not ours:
        raise KeyNotSealed(
            f"the sealing key at {api_url} is not signed by {validator}: somebody may be in between"
        )
    if own.endpoint not in offered.endpoints:
        known = ", ".join(f"{name} ({url})" for name, url in offered.endpoints.items())
        raise KeyNotSealed(f"keys may go to {known} here, and not to {own.endpoint}: see --key.endpoint")
    try:
        sealed = seal(
            own.key, offered.public_key, hotkey=hotkey, source_sha256=source_sha256, endpoint=own.endpoint
        )
    except BadSeal as error:
        raise KeyNotSealed(str(error)) from None
    return f"{sealed.endpoint}:{sealed.box}"
