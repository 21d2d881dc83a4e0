"""What a block does by itself: reveal what is due, and run the epoch of subnets whose tempo has passed."""

from __future__ import annotations

from neurons.localnet import commitments, subnet, weighing, yuma
from neurons.localnet.calls import Event
from neurons.localnet.state import Draft, View
from neurons.localnet.subnet import PALLET, RAO_PER_TAO


def run_due(state: Draft, block: int) -> list[Event]:
    """Everything due in a block, after its extrinsics. An epoch sees what is revealed in its own block."""
    events = commitments.reveal_due(state, block)
    for netuid in subnet.netuids(state):
        last = state.get(PALLET, "LastEpochBlock", netuid)
        tempo = state.get(PALLET, "Tempo", netuid)
        due = tempo and block - last >= tempo
        if due:
            index = state.get(PALLET, "SubnetEpochIndex", netuid)
            state.put(PALLET, "SubnetEpochIndex", netuid, value=index + 1)
        if state.get(PALLET, "CommitRevealWeightsEnabled", netuid):
            events += weighing.reveal_due(state, netuid, block)
        if due:
            _run(state, netuid, block)
        state.put(PALLET, "BlocksSinceLastStep", netuid, value=0 if due else block - last)
    return events


def _run(state: Draft, netuid: int, block: int) -> None:
    standings = _standings(state, netuid)
    outcome = yuma.epoch(standings, _parameters(state, netuid, block))
    for item, column in {
        "Active": outcome.active,
        "ValidatorPermit": outcome.permits,
        "Incentive": outcome.incentive,
        "Dividends": outcome.dividends,
        "Consensus": outcome.consensus,
        "ValidatorTrust": outcome.validator_trust,
        "StakeWeight": outcome.stake_weight,
        "Emission": outcome.emission,
    }.items():
        state.put(PALLET, item, netuid, value=list(column))
    for uid, (before, row) in enumerate(zip(standings, outcome.bonds, strict=True)):
        if row:
            state.put(PALLET, "Bonds", netuid, uid, value=sorted(row.items()))
        elif before.bonds:
            state.remove(PALLET, "Bonds", netuid, uid)
    state.put(PALLET, "LastEpochBlock", netuid, value=block)
    state.put(PALLET, "LastMechansimStepBlock", netuid, value=block)


def _standings(state: View, netuid: int) -> list[yuma.Standing]:
    stakes = subnet.stakes(state, netuid)
    permits = state.get(PALLET, "ValidatorPermit", netuid)
    updates = state.get(PALLET, "LastUpdate", netuid)
    sealed = state.get(PALLET, "CommitRevealWeightsEnabled", netuid)
    earliest = weighing.earliest_commits(state, netuid) if sealed else {}
    owner = subnet.owner_uid(state, netuid)
    committed_at = {subnet.uid_of(state, netuid, hotkey): at for hotkey, at in earliest.items()}
    standings = []
    for uid, stake in enumerate(stakes):
        votes = permits[uid] or uid == owner
        standings.append(
            yuma.Standing(
                stake=stake,
                permit=permits[uid],
                last_update=updates[uid],
                registered_at=state.get(PALLET, "BlockAtRegistration", netuid, uid),
                weights=dict(state.get(PALLET, "Weights", netuid, uid)) if votes else {},
                bonds=dict(state.get(PALLET, "Bonds", netuid, uid)) if votes else {},
                committed_at=committed_at.get(uid),
            )
        )
    return standings


def _parameters(state: View, netuid: int, block: int) -> yuma.Parameters:
    """The subnet's hyperparameters. It earns one alpha a block, of which nobody takes a cut."""
    last = state.get(PALLET, "LastEpochBlock", netuid)
    return yuma.Parameters(
        block=block,
        previous_epoch=state.get(PALLET, "LastMechansimStepBlock", netuid),
        tempo=state.get(PALLET, "Tempo", netuid),
        activity_cutoff=state.get(PALLET, "ActivityCutoff", netuid),
        stake_threshold=int(state.get(PALLET, "StakeThreshold")),
        max_validators=state.get(PALLET, "MaxAllowedValidators", netuid),
        owner_uid=subnet.owner_uid(state, netuid),
        kappa=state.get(PALLET, "Kappa", netuid),
        bonds_moving_average=state.get(PALLET, "BondsMovingAverage", netuid),
        bonds_penalty=state.get(PALLET, "BondsPenalty", netuid),
        emission=(block - last) * RAO_PER_TAO,
    )
