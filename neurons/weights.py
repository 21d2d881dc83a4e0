"""From payout by hotkey to weights by uid, and when to send them.

Scores belong to hotkeys, and the chain wants uids, which are reused: the mapping is made with the newest
metagraph, at the moment of setting weights. No unit is lost: what cannot be paid is burned, so that one
miner's absence never raises another's share. But to burn is a statement, too: where there is nothing to say,
what is said is `KeepLast`, and the chain keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from neurons.chain_types import Metagraph, Standing

U16_MAX = 65535


@dataclass(frozen=True, slots=True)
class UidWeights:
    """Weights by uid, all positive. `missing`: paid hotkeys that hold no uid; their units are burned."""

    weights: dict[int, int]
    missing: tuple[str, ...]
    burned: int
    """Units sent to the burn uid because they were to be burned or could not be paid."""


@dataclass(frozen=True, slots=True)
class KeepLast:
    """Nothing is to be said: the weights that stand on the chain, stand. `reason` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """When weights are to be sent, in blocks, and why: they differ from what stands, or grow old."""

    block: int
    why: Literal["changed", "refresh"]


def what_to_say(settlement: Mapping[str, Any] | None, graph: Metagraph, *, own: str) -> UidWeights | KeepLast:
    """The weights of a settled race by uid, in this metagraph; `own` is the hotkey that says them.

    A metagraph without ourselves in it is no ground to burn anybody's share on: it is of another subnet, or
    read wrong, or our own registration is gone.
    """
    if settlement is None:
        return KeepLast("no race has settled yet")
    payout = settlement.get("payout") or {}
    units, burn = payout.get("units") or {}, payout.get("burn") or 0
    if not burn and not any(units.values()):
        return KeepLast("the race pays nobody and burns nothing")
    if graph.of(own) is None:
        return KeepLast(f"the metagraph of block {graph.block} does not hold our own hotkey {own}")
    return weights_by_uid(units, burn=burn, uids=graph.uids(), burn_uid=graph.burn_uid())


def stands(standing: Standing, row: Mapping[int, int], *, last_sent: Mapping[int, int] | None) -> bool:
    """Whether the chain holds this row, or holds it sealed; `last_sent` is what we sent last."""
    return last_sent == row if standing.sealed else standing.row == row


def due(standing: Standing, row: Mapping[int, int], *, last_sent: Mapping[int, int] | None) -> Due:
    """The block from which on this row is to be sent.

    One that differs from what stands: as soon as the rate limit allows. One that stands: again halfway to
    the activity cutoff, after which the chain would leave us out of the consensus, and then in the last
    quarter of an epoch, so that uids are mapped to hotkeys shortly before the consensus reads them.
    """
    earliest = max(standing.block, standing.last_update + standing.rate_limit)
    if not stands(standing, row, last_sent=last_sent):
        return Due(earliest, "changed")
    old = standing.last_update + max(standing.rate_limit, standing.activity_cutoff // 2)
    return Due(max(standing.block, _last_quarter(standing, old)), "refresh")


def next_look(standing: Standing) -> int:
    """The block at which to look at the metagraph again: once an epoch, in its last quarter."""
    return _last_quarter(standing, standing.block + max(1, standing.epoch.tempo // 4))


def overdue(standing: Standing) -> bool:
    """Whether weights are so old that somebody should look: past three quarters of the activity cutoff."""
    return 0 < 3 * standing.activity_cutoff <= 4 * standing.blocks_since_update


def _last_quarter(standing: Standing, block: int) -> int:
    """The first block from `block` on that lies in the last quarter of an epoch."""
    tempo, epoch_end = standing.epoch.tempo, standing.epoch.next_block
    if not tempo or epoch_end is None:
        return block
    # An epoch was due at `epoch_end`; those after it follow every `tempo` blocks.
    end = epoch_end + max(0, -(-(block + 1 - epoch_end) // tempo)) * tempo
    return max(block, end - max(1, tempo // 4))


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
