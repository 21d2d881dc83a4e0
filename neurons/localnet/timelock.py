"""Timelocks: what is sealed to a future round of the drand beacon, and opened once that round is known.

The chain stores a round's signature (a *pulse*) and opens with it what was sealed to that round. A machine
without internet gets no new pulses, and nobody can make one: only the beacon can. What it can have is an old
round, whose signature is public for ever. A new chain here knows one, `KNOWN_ROUND`; what is sealed to it
goes through the whole of the real path, the encryption, the calls, the storage and the opening, and is only
not secret. `sealing_to_the_known_round` has the SDK in this process seal weights to it.

Other pulses come in by the admin door (`LocalNet.pulse`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bittensor_core

from neurons.localnet.codec import compact, plain_bytes, read_compact, ss58_of
from neurons.localnet.state import Draft, View

KNOWN_ROUND = 1000
KNOWN_SIGNATURE = (
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
)
"""Of drand's quicknet (chain hash 52db9ba7...4e971). That it opens what is sealed to its round proves it."""

_SIGNATURE_BYTES = 48


class StaysShut(ValueError):
    """This signature does not open these bytes, or what is in them is not what it should be."""


@dataclass(frozen=True, slots=True)
class SealedWeights:
    """A validator's weights as they are before they are sealed (`WeightsTlockPayload` in the pallet)."""

    hotkey: str
    uids: tuple[int, ...]
    values: tuple[int, ...]
    version_key: int


def store_pulse(state: Draft, reveal_round: int, signature: str) -> None:
    """Let the chain know the signature of a round, 48 bytes in hex. Raises ValueError for anything else."""
    raw = bytes.fromhex(signature.removeprefix("0x"))
    if len(raw) != _SIGNATURE_BYTES:
        raise ValueError(f"a signature of drand's quicknet has {_SIGNATURE_BYTES} bytes, not {len(raw)}")
    # A beacon's randomness is the hash of its signature.
    randomness = hashlib.sha256(raw).digest()
    content = {"round": reveal_round, "randomness": randomness, "signature": raw}
    state.put("Drand", "Pulses", reveal_round, value=content)
    newest = max(reveal_round, state.get("Drand", "LastStoredRound"))
    state.put("Drand", "LastStoredRound", value=newest)


def pulse(state: View, reveal_round: int) -> str | None:
    """The signature of a round in hex, or None while the chain does not know it."""
    found = state.get("Drand", "Pulses", reveal_round)
    return None if found is None else plain_bytes(found["signature"]).hex()


def opened(sealed: bytes, reveal_round: int, signature: str) -> bytes:
    """The plain bytes of a ciphertext as the chain stores it. Raises StaysShut."""
    envelope = compact(len(sealed)) + sealed + reveal_round.to_bytes(8, "little")
    try:
        return bytes(bittensor_core.decrypt_with_signature(envelope, signature))
    except (ValueError, RuntimeError) as error:
        raise StaysShut(str(error)) from error


def opened_weights(sealed: bytes, reveal_round: int, signature: str) -> SealedWeights:
    """The weights in a commit. Raises StaysShut."""
    plain = opened(sealed, reveal_round, signature)
    try:
        length, at = read_compact(plain, 0)
        hotkey, at = plain[at : at + length], at + length
        uids, at = _u16s(plain, at)
        values, at = _u16s(plain, at)
        if length != 32 or len(plain) != at + 8:
            raise StaysShut("what was sealed are no weights")
    except IndexError as error:
        raise StaysShut("what was sealed are no weights") from error
    return SealedWeights(ss58_of(hotkey), uids, values, int.from_bytes(plain[at:], "little"))


@contextlib.contextmanager
def sealing_to_the_known_round() -> Iterator[None]:
    """While entered, `bt.SetWeights` in this process seals to a round that the local chain can open at once.

    The one thing replaced is the choice of the round: the SDK would take the one at the time of the reveal.
    """
    original = bittensor_core.get_encrypted_commit_v2
    bittensor_core.get_encrypted_commit_v2 = _sealed_to_the_known_round
    try:
        yield
    finally:
        bittensor_core.get_encrypted_commit_v2 = original


def _sealed_to_the_known_round(
    *, uids: list[int], weights: list[int], version_key: int, hotkey: bytes, **_: Any
) -> tuple[bytes, int]:
    plain = compact(len(hotkey)) + bytes(hotkey)
    for numbers in (uids, weights):
        plain += compact(len(numbers)) + b"".join(number.to_bytes(2, "little") for number in numbers)
    plain += version_key.to_bytes(8, "little")
    envelope, reveal_round = bittensor_core.encrypt_at_round(plain, KNOWN_ROUND)
    return bytes(bittensor_core.inner_ciphertext(envelope)), reveal_round


def _u16s(raw: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = read_compact(raw, at)
    end = at + 2 * count
    return tuple(int.from_bytes(raw[i : i + 2], "little") for i in range(at, end, 2)), end
