"""One agent sent to every validator that can be found; those that were down are tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from neurons.chain_types import Subnet
from neurons.miner import SubmissionRefused, ValidatorUnreachable, commit, send
from neurons.mining.validators import Validator, of_all, validators
from neurons.sealed import KeyNotSealed, OwnKey
from neurons.wallets import Wallet

TRIES = 4
PAUSE_S = 5.0
_DEADLINE_S = 90.0


class NoValidators(LookupError):
    """Nobody is there to send to."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one validator said. `took` is None while it is down; `code` is its refusal's."""

    validator: str
    url: str
    took: bool | None
    code: Literal["taken", "known", "down"] | str
    detail: str
    tries: int

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "validator": self.validator,
            "url": self.url,
            "took": self.took,
            "code": self.code,
            "detail": self.detail,
            "tries": self.tries,
        }


async def found(chain: Subnet, wallet: Wallet) -> list[Validator]:
    """Every validator to send to. Raises NoValidators, ChainError."""
    known = await validators(chain, own=wallet.hotkey.ss58_address)
    if not known:
        raise NoValidators(
            f"no validator of subnet {chain.netuid} that holds a permit has announced where it answers: "
            "give the address of one with --api.url"
        )
    return known


async def send_to_all(
    chain: Subnet,
    wallet: Wallet,
    *,
    source: bytes,
    name: str,
    own_key: OwnKey | None = None,
    tries: int = TRIES,
    pause_s: float = PAUSE_S,
    say: Callable[[Delivery], None] = lambda _: None,
) -> list[Delivery]:
    """Commit, and submit to every validator; those that are down are tried `tries` times in all.

    The pause between tries doubles. Raises NoValidators, ChainError; what a validator says or fails at is in
    its delivery.
    """
    known = await found(chain, wallet)
    await commit(chain, wallet, source)

    async def once(validator: Validator, tried: int) -> Delivery:
        delivery = await _deliver(wallet, validator, source, name, own_key, tried)
        say(delivery)
        return delivery

    ended: dict[str, Delivery] = {}
    waiting: Sequence[Validator] = known
    for tried in range(1, tries + 1):
        for delivery in await of_all(waiting, partial(once, tried=tried)):
            ended[delivery.validator] = delivery
        waiting = [v for v in known if ended[v.hotkey].took is None]
        if not waiting or tried == tries:
            break
        await asyncio.sleep(pause_s * 2 ** (tried - 1))
    return [ended[validator.hotkey] for validator in known]


async def _deliver(
    wallet: Wallet, validator: Validator, source: bytes, name: str, own_key: OwnKey | None, tried: int
) -> Delivery:
    url = validator.endpoint.url
    try:
        async with asyncio.timeout(_DEADLINE_S):
            sent = await send(
                wallet, source=source, name=name, api_url=url, receiver=validator.hotkey, own_key=own_key
            )
    except SubmissionRefused as refused:
        passing = refused.code in ("unavailable", "rate_limited", "commitment_missing")
        return Delivery(
            validator.hotkey, url, None if passing else False, refused.code, refused.detail, tried
        )
    except KeyNotSealed as error:
        return Delivery(validator.hotkey, url, False, "key_not_sealed", str(error), tried)
    except (ValidatorUnreachable, TimeoutError) as error:
        return Delivery(validator.hotkey, url, None, "down", str(error) or "it does not answer", tried)
    code = "taken" if sent.receipt.new else "known"
    return Delivery(validator.hotkey, url, True, code, f"as {sent.receipt.submission_id}", tried)
