"""What happens at the end of a tempo: incentives from the validators' weights.

This is the stake-weighted mean of the validators' normalised weights. It is not Yuma consensus: no clipping
at the stake median, no bonds, no dividends, and nothing is emitted. It shows that weights have an effect; it
does not show which effect they would have on the real chain.
"""

from __future__ import annotations

from neurons.localnet import subnet
from neurons.localnet.state import Draft
from neurons.localnet.subnet import PALLET, U16_MAX


def run_due(state: Draft, block: int) -> None:
    """Run the epoch of every subnet whose tempo has passed."""
    for netuid in subnet.netuids(state):
        since = block - state.get(PALLET, "LastEpochBlock", netuid)
        tempo = state.get(PALLET, "Tempo", netuid)
        if tempo and since >= tempo:
            _run(state, netuid, block)
            since = 0
        state.put(PALLET, "BlocksSinceLastStep", netuid, value=since)


def incentives(rows: list[dict[int, int]], stakes: list[int]) -> list[int]:
    """Incentive of each uid as a u16 share of 65535, from weight rows by validator uid and their stakes."""
    shares = [0.0] * len(stakes)
    for row, stake in zip(rows, stakes, strict=True):
        given = sum(row.values())
        for target, weight in row.items() if given else ():
            shares[target] += stake * weight / given
    total = sum(shares)
    return [int(share / total * U16_MAX) for share in shares] if total else [0] * len(stakes)


def _run(state: Draft, netuid: int, block: int) -> None:
    subnet.refresh_permits(state, netuid)
    permitted = state.get(PALLET, "ValidatorPermit", netuid)
    held = [s if permitted[uid] else 0 for uid, s in enumerate(subnet.stakes(state, netuid))]
    rows = [dict(state.get(PALLET, "Weights", netuid, uid)) for uid in range(len(held))]
    state.put(PALLET, "Incentive", netuid, value=incentives(rows, held))
    state.put(PALLET, "LastEpochBlock", netuid, value=block)
    state.put(PALLET, "SubnetEpochIndex", netuid, value=state.get(PALLET, "SubnetEpochIndex", netuid) + 1)
