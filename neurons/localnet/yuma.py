"""Yuma consensus: what the weights of several validators turn into, once a tempo.

Each miner's weight is cut at the stake-weighted median of what the validators gave it, so that a validator
below half the stake cannot lift anyone above what the others think. Miners earn by the cut weights
(incentive); validators earn by bonds, a moving average of their cut weights (dividends).

Source: `epoch_mechanism` of the Subtensor pallet (pallets/subtensor/src/epoch/run_epoch.rs and math.rs,
RaoFoundation/subtensor) and its docs/consensus.md: the original bonds, Yuma3 and liquid alpha being off, as
they are by default. The arithmetic is the pallet's, fixed point with 32 fractional bits that rounds down, so
that a u16 is rounded as the chain rounds it. Everything is a function of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

U16_MAX = 65535
_BITS = 32
_ONE = 1 << _BITS
_MOVING_AVERAGE_ONE = 1_000_000

Row = Mapping[int, int]
"""Of one validator: u16 by the uid it is about."""
_Fixed = dict[int, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """One uid before an epoch. `stake` in rao; blocks are numbers; `weights` and `bonds` are rows of u16.

    `committed_at` is the block of its earliest weight commit that is not revealed yet, or None.
    """

    stake: int
    permit: bool
    last_update: int
    registered_at: int
    weights: Row
    bonds: Row
    committed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Parameters:
    """The subnet's hyperparameters that an epoch reads; ratios as the chain stores them.

    `previous_epoch` is the block of the last epoch that ran (0: none yet). `kappa` and `bonds_penalty` are
    u16 shares of 65535, `bonds_moving_average` millionths. `emission` is what the epoch distributes, in rao.
    """

    block: int
    previous_epoch: int
    tempo: int
    activity_cutoff: int
    stake_threshold: int
    max_validators: int
    owner_uid: int | None = None
    kappa: int = 32767
    bonds_moving_average: int = 900_000
    bonds_penalty: int = U16_MAX
    emission: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an epoch says of every uid, by uid. All u16 but `active`, `permits`, `emission` (rao), `bonds`."""

    active: tuple[bool, ...]
    permits: tuple[bool, ...]
    incentive: tuple[int, ...]
    dividends: tuple[int, ...]
    consensus: tuple[int, ...]
    validator_trust: tuple[int, ...]
    stake_weight: tuple[int, ...]
    emission: tuple[int, ...]
    bonds: tuple[dict[int, int], ...]


def epoch(standings: Sequence[Standing], parameters: Parameters) -> Outcome:
    """Run one epoch over all uids of a subnet."""
    count = len(standings)
    counted = _enough([s.stake for s in standings], parameters.stake_threshold, parameters.owner_uid)
    stake = _normalized(counted)
    active = [s.last_update + parameters.activity_cutoff >= parameters.block for s in standings]
    permits = _with_owner([s.permit for s in standings], parameters.owner_uid)
    active_stake = _normalized(
        [part if active[uid] and permits[uid] else 0 for uid, part in enumerate(stake)]
    )
    weights = _counted_weights(standings, permits, parameters.owner_uid)
    consensus = _medians(weights, active_stake, (parameters.kappa << _BITS) // U16_MAX)
    clipped = [{j: min(w, consensus[j]) for j, w in row.items()} for row in weights]
    incentive = _normalized(_columns_weighted(clipped, active_stake))
    penalty = (parameters.bonds_penalty << _BITS) // U16_MAX
    for_bonds = [
        {j: w + _times(cut[j] - w, penalty) for j, w in row.items()}
        for row, cut in zip(weights, clipped, strict=True)
    ]
    bonds = _moved_bonds(standings, parameters, for_bonds, active_stake)
    dividends = _normalized([sum(_times(b, incentive[j]) for j, b in row.items()) for row in bonds])
    new_permits = elect(
        [s.stake for s in standings],
        stake_threshold=parameters.stake_threshold,
        max_validators=parameters.max_validators,
        owner_uid=parameters.owner_uid,
    )
    stored_bonds = _upscaled(bonds)
    return Outcome(
        active=tuple(active),
        permits=tuple(new_permits),
        incentive=_as_u16(incentive),
        dividends=_as_u16(dividends),
        consensus=_as_u16(consensus),
        validator_trust=_as_u16([sum(row.values()) for row in clipped]),
        stake_weight=_as_u16(stake),
        emission=_emission(incentive, dividends, active_stake, stake, parameters.emission),
        bonds=tuple(stored_bonds[uid] if new_permits[uid] else {} for uid in range(count)),
    )


def elect(
    stakes: Sequence[int], *, stake_threshold: int, max_validators: int, owner_uid: int | None
) -> list[bool]:
    """Validator permits: the owner's, and the largest stakes that reach the threshold, lower uids first."""
    counted = _enough(stakes, stake_threshold, owner_uid)
    ranked = sorted((uid for uid, stake in enumerate(counted) if stake), key=lambda uid: (-counted[uid], uid))
    elected = set(ranked[:max_validators])
    return _with_owner([uid in elected for uid in range(len(counted))], owner_uid)


def _enough(stakes: Sequence[int], threshold: int, owner_uid: int | None) -> list[int]:
    return [s if uid == owner_uid or s >= threshold else 0 for uid, s in enumerate(stakes)]


def _with_owner(permits: list[bool], owner_uid: int | None) -> list[bool]:
    return [held or uid == owner_uid for uid, held in enumerate(permits)]


def _counted_weights(
    standings: Sequence[Standing], permits: Sequence[bool], owner_uid: int | None
) -> list[_Fixed]:
    """Rows that add up to one, without what does not count.

    Left out: validators without a permit, weights on oneself (but the owner's), and weights on a uid that was
    registered after they were set or, sealed, committed to: they meant another miner.
    """

    def counts(uid: int, target: int) -> bool:
        voter, registered_at = standings[uid], standings[target].registered_at
        sealed_before = voter.committed_at is not None and voter.committed_at < registered_at
        return (target != uid or uid == owner_uid) and voter.last_update > registered_at and not sealed_before

    rows: list[_Fixed] = []
    for uid, standing in enumerate(standings):
        given = standing.weights.items() if permits[uid] else ()
        row = {j: w << _BITS for j, w in given if w and j < len(standings) and counts(uid, j)}
        total = sum(row.values())
        rows.append({j: _over(w, total) for j, w in row.items()})
    return rows


def _medians(weights: Sequence[_Fixed], stake: Sequence[int], kappa: int) -> list[int]:
    """Of each uid, the largest weight that at least a share `kappa` of the stake gave it or more.

    As the pallet's `weighted_median`: the smallest weight below or at which lies more than 1 - kappa.
    """
    voters = [uid for uid, part in enumerate(stake) if part > 0]
    shares = dict(zip(voters, _normalized([stake[uid] for uid in voters]), strict=True))
    everyone = sum(shares.values())
    minority = everyone - kappa
    votes: list[list[tuple[int, int]]] = [[] for _ in stake]
    for uid in voters:
        for target, weight in weights[uid].items():
            if weight:
                votes[target].append((weight, shares[uid]))
    medians = []
    for cast in votes:
        below = everyone - sum(share for _, share in cast)
        median = 0
        if below <= minority or len(cast) == len(voters):
            for weight, share in sorted(cast):
                median = weight
                below += share
                if below > minority:
                    break
        medians.append(median)
    return medians


def _moved_bonds(
    standings: Sequence[Standing], parameters: Parameters, weights: Sequence[_Fixed], stake: Sequence[int]
) -> list[_Fixed]:
    """Bonds after this epoch, each column adding up to one.

    A uid that was registered since the last epoch starts without the bonds in its predecessor.
    """
    previous = parameters.previous_epoch
    kept_before = previous + 1 if previous else max(0, parameters.block - parameters.tempo)
    held = [
        {
            j: b << _BITS
            for j, b in s.bonds.items()
            if j < len(standings) and kept_before > standings[j].registered_at
        }
        for s in standings
    ]
    bought = [{j: _times(w, stake[uid]) for j, w in row.items()} for uid, row in enumerate(weights)]
    held, bought = _columns_normalized(held), _columns_normalized(bought)
    alpha = _ONE - (parameters.bonds_moving_average << _BITS) // _MOVING_AVERAGE_ONE
    moved = [
        {
            j: _times(alpha, new.get(j, 0)) + _times(_ONE - alpha, old.get(j, 0))
            for j in sorted(new.keys() | old.keys())
        }
        for new, old in zip(bought, held, strict=True)
    ]
    return _columns_normalized(moved)


def _emission(
    incentive: Sequence[int],
    dividends: Sequence[int],
    active_stake: Sequence[int],
    stake: Sequence[int],
    emission: int,
) -> tuple[int, ...]:
    """What each uid is given, in rao: half by incentive, half by dividends; by stake when nobody voted."""
    earned = [i + d for i, d in zip(incentive, dividends, strict=True)]
    by_stake = active_stake if any(active_stake) else stake
    shares = _normalized(earned) if any(earned) else by_stake
    return tuple(_times(share, emission) for share in shares)


def _columns_weighted(rows: Sequence[_Fixed], by: Sequence[int]) -> list[int]:
    totals = [0] * len(rows)
    for row, factor in zip(rows, by, strict=True):
        for j, value in row.items():
            totals[j] += _times(factor, value)
    return totals


def _columns_normalized(rows: Sequence[_Fixed]) -> list[_Fixed]:
    totals = _columns_weighted(rows, [_ONE] * len(rows))
    return [{j: _over(value, totals[j]) for j, value in row.items()} for row in rows]


def _upscaled(rows: Sequence[_Fixed]) -> list[dict[int, int]]:
    """Rows as stored: u16, the largest of each column 65535."""
    largest: dict[int, int] = {}
    for row in rows:
        for j, value in row.items():
            largest[j] = max(value, largest.get(j, 0))
    return [
        {j: u16 for j, value in row.items() if (u16 := _times(_over(value, largest[j]), U16_MAX))}
        for row in rows
    ]


def _normalized(values: Sequence[int]) -> list[int]:
    total = sum(values)
    return [_over(value, total) for value in values]


def _as_u16(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(min(U16_MAX, _times(value, U16_MAX)) for value in values)


def _times(a: int, b: int) -> int:
    """The product of a fixed-point number and another (or an integer, which then stays one)."""
    return a * b >> _BITS


def _over(a: int, b: int) -> int:
    return (a << _BITS) // b if b else 0
