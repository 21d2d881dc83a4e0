"""From payout by hotkey to weights by uid.

Scores belong to hotkeys, and the chain wants uids, which are reused: the mapping is made with the newest
metagraph, at the moment of setting weights. No unit is lost: what cannot be paid is burned, so that one
miner's absence never raises another's share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

U16_MAX = 65535


@dataclass(frozen=True, slots=True)
class UidWeights:
    """Weights by uid, all positive. `missing`: paid hotkeys that hold no uid; their units are burned."""

    weights: dict[int, int]
    missing: tuple[str, ...]
    burned: int
    """Units sent to the burn uid because they were to be burned or could not be paid."""


def weights_by_uid(
    payout: Mapping[str, int], *, burn: int, uids: Mapping[str, int], burn_uid: int
) -> UidWeights:
    """Map u16 units by hotkey, and `burn` units, to uids. The sum of the units is kept.

    `uids` is the metagraph's uid of each registered hotkey. Units given to the burn uid, usually the subnet
    owner's, are burned by the chain. A hotkey that itself holds the burn uid gets its units there too, added
    to the burned ones. Raises ValueError for negative units, a total outside 1..65535, or two hotkeys on one
    uid.
    """
    if burn < 0 or any(units < 0 for units in payout.values()):
        raise ValueError("units of payout must not be negative")
    total = burn + sum(payout.values())
    if not 0 < total <= U16_MAX:
        raise ValueError(f"the units of a payout must sum to 1..{U16_MAX}, not {total}")
    if len(set(uids.values())) != len(uids):
        raise ValueError("two hotkeys hold the same uid: this is not one block's metagraph")
    missing = tuple(sorted(hotkey for hotkey, units in payout.items() if units and hotkey not in uids))
    burned = burn + sum(payout[hotkey] for hotkey in missing)
    weights = {uids[hotkey]: units for hotkey, units in sorted(payout.items()) if units and hotkey in uids}
    if burned:
        weights[burn_uid] = weights.get(burn_uid, 0) + burned
    return UidWeights(dict(sorted(weights.items())), missing, burned)


def explains(units: Mapping[str, int], *, burn: int, sent: Iterable[int]) -> bool:
    """Whether `sent`, scaled as the SDK scales it, may be the row of this payout, whoever held which uid.

    One uid takes what burns: the burn, and the units of hotkeys that were missing.
    """
    row = sorted(sent, reverse=True)
    if not row or row[0] != U16_MAX:
        return False
    total = burn + sum(units.values())
    largest = total * U16_MAX / sum(row)
    left = sorted((u for u in units.values() if u), reverse=True)
    unexplained = 0
    for weight in row:
        near = next((u for u in left if abs(u - weight * largest / U16_MAX) <= 1), None)
        if near is None:
            unexplained += 1
        else:
            left.remove(near)
    return unexplained <= 1


def max_upscaled(weights: Mapping[int, int]) -> dict[int, int]:
    """The row the chain stores for these weights: scaled so that the largest is 65535, zeros left out.

    The SDK sends `round(weight / largest * 65535)` and drops zeros (`bittensor.intents.normalize`); the
    pallet's own scaling then changes nothing. No positive u16 weight becomes zero. Raises ValueError when
    none is positive, or one is not a u16.
    """
    if any(not 0 <= weight <= U16_MAX for weight in weights.values()):
        raise ValueError(f"a weight must be within 0..{U16_MAX}")
    largest = max(weights.values(), default=0)
    if largest == 0:
        raise ValueError("all weights are zero; there is nothing to set")
    return {uid: round(weight / largest * U16_MAX) for uid, weight in sorted(weights.items()) if weight}
