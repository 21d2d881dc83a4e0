"""Weights: set in the clear, or committed under a timelock and revealed by the chain.

The order of the checks and the names of the errors follow the documentation in the runtime's metadata. The
reveal follows `reveal_crv3_commits_for_subnet` of the Subtensor pallet
(pallets/subtensor/src/coinbase/reveal_commits.rs): commits of an epoch are opened, with the drand pulse of
their round, in each block of the epoch that is the reveal period later, and dropped after it.
"""

from __future__ import annotations

from neurons.localnet import subnet, timelock
from neurons.localnet.calls import Call, DispatchFailure, Event
from neurons.localnet.codec import hash256, hex_of, plain_bytes
from neurons.localnet.state import Draft, View
from neurons.localnet.subnet import MECHANISM_STRIDE, PALLET
from neurons.localnet.yuma import U16_MAX

_MOST_UNREVEALED = 10
_COMMITS = "TimelockedWeightCommits"


def set_weights(state: Draft, call: Call) -> list[Event]:
    """`set_weights`: the first mechanism's."""
    return set_mechanism_weights(state, Call(call.signer, call.block, {**call.arguments, "mecid": 0}))


def set_mechanism_weights(state: Draft, call: Call) -> list[Event]:
    """`set_mechanism_weights`. This chain's subnets have one mechanism."""
    netuid = call.arguments["netuid"]
    _check_subnet(state, call)
    if state.get(PALLET, "CommitRevealWeightsEnabled", netuid):
        raise DispatchFailure("CommitRevealEnabled")
    if len(call.arguments["dests"]) > subnet.size(state, netuid):
        raise DispatchFailure("UidsLengthExceedUidsInSubNet")
    _check_voter(state, call, too_fast="SettingWeightsTooFast")
    return _write(state, call)


def commit_weights(state: Draft, call: Call) -> list[Event]:
    """`commit_timelocked_weights`: the first mechanism's."""
    return commit_mechanism_weights(state, Call(call.signer, call.block, {**call.arguments, "mecid": 0}))


def commit_mechanism_weights(state: Draft, call: Call) -> list[Event]:
    """`commit_timelocked_mechanism_weights`. LastUpdate moves now, not at the reveal."""
    netuid, sealed = call.arguments["netuid"], plain_bytes(call.arguments["commit"])
    _check_subnet(state, call)
    if not state.get(PALLET, "CommitRevealWeightsEnabled", netuid):
        raise DispatchFailure("CommitRevealDisabled")
    if call.arguments["commit_reveal_version"] != state.get(PALLET, "CommitRevealWeightsVersion"):
        raise DispatchFailure("IncorrectCommitRevealVersion")
    uid = _check_voter(state, call, too_fast="CommittingWeightsTooFast", version_key=False)
    epoch = state.get(PALLET, "SubnetEpochIndex", netuid)
    waiting = list(state.get(PALLET, _COMMITS, netuid, epoch))
    if sum(1 for commit in waiting if commit[0] == call.signer) >= _MOST_UNREVEALED:
        raise DispatchFailure("TooManyUnrevealedCommits")
    reveal_round = call.arguments["reveal_round"]
    waiting.append((call.signer, call.block, sealed, reveal_round))
    state.put(PALLET, _COMMITS, netuid, epoch, value=waiting)
    _mark_update(state, netuid, uid, call.block)
    committed = (call.signer, netuid, hex_of(hash256(sealed)), reveal_round)
    return [Event(PALLET, "TimelockedWeightsCommitted", committed)]


def reveal_due(state: Draft, netuid: int, block: int) -> list[Event]:
    """Open what is due on a subnet and can be opened; what cannot be, for want of a pulse, waits."""
    epoch = state.get(PALLET, "SubnetEpochIndex", netuid)
    due = epoch - state.get(PALLET, "RevealPeriodEpochs", netuid)
    for committed_in in _epochs_of_commits(state, netuid):
        if committed_in < due:
            state.remove(PALLET, _COMMITS, netuid, committed_in)
    commits = state.get(PALLET, _COMMITS, netuid, due) if due >= 0 else []
    waiting, events = [], []
    for hotkey, committed_at, sealed, reveal_round in commits:
        signature = timelock.pulse(state, reveal_round)
        if signature is None:
            waiting.append((hotkey, committed_at, sealed, reveal_round))
            continue
        attempt = state.fork()
        try:
            found = timelock.opened_weights(plain_bytes(sealed), reveal_round, signature)
            _reveal(attempt, netuid, block, hotkey, found)
        except (timelock.StaysShut, DispatchFailure):
            continue  # As in the pallet: what cannot be applied is dropped without a trace.
        state.absorb(attempt)
        events.append(Event(PALLET, "TimelockedWeightsRevealed", (netuid, hotkey)))
    if waiting and len(waiting) != len(commits):
        state.put(PALLET, _COMMITS, netuid, due, value=waiting)
    elif commits and not waiting:
        state.remove(PALLET, _COMMITS, netuid, due)
    return events


def earliest_commits(state: View, netuid: int) -> dict[str, int]:
    """Block of the earliest commit not revealed yet, by hotkey."""
    earliest: dict[str, int] = {}
    for epoch in _epochs_of_commits(state, netuid):
        for hotkey, block, _, _ in state.get(PALLET, _COMMITS, netuid, epoch):
            earliest[hotkey] = min(block, earliest.get(hotkey, block))
    return earliest


def _epochs_of_commits(state: View, netuid: int) -> list[int]:
    prefix = state.codec.storage_key(PALLET, _COMMITS, (netuid,))
    # The second key's hasher keeps the key's own bytes at the end: a little-endian u64.
    return sorted(
        int.from_bytes(key[-8:], "little") for key in state.reader.keys(prefix, prefix, MECHANISM_STRIDE)
    )


def _reveal(state: Draft, netuid: int, block: int, hotkey: str, found: timelock.SealedWeights) -> None:
    if found.hotkey != hotkey or subnet.uid_of(state, netuid, hotkey) is None:
        raise timelock.StaysShut("the weights are another's")
    arguments = {
        "netuid": netuid,
        "mecid": 0,
        "dests": list(found.uids),
        "weights": list(found.values),
        "version_key": found.version_key,
    }
    call = Call(hotkey, block, arguments)
    _check_voter(state, call, too_fast=None)
    _write(state, call, update=False)


def _check_subnet(state: View, call: Call) -> None:
    if not subnet.exists(state, call.arguments["netuid"]) or call.arguments["mecid"] != 0:
        raise DispatchFailure("MechanismDoesNotExist")


def _check_voter(state: View, call: Call, *, too_fast: str | None, version_key: bool = True) -> int:
    """Whether the signer may say anything now; returns its uid."""
    netuid = call.arguments["netuid"]
    uid = subnet.uid_of(state, netuid, call.signer)
    if uid is None:
        raise DispatchFailure("HotKeyNotRegisteredInSubNet")
    is_owner = uid == subnet.owner_uid(state, netuid)
    if not is_owner and subnet.stake_of(state, netuid, call.signer) < state.get(PALLET, "StakeThreshold"):
        raise DispatchFailure("NotEnoughStakeToSetWeights")
    if version_key and call.arguments["version_key"] < state.get(PALLET, "WeightsVersionKey", netuid):
        raise DispatchFailure("IncorrectWeightVersionKey")
    updated = state.get(PALLET, "LastUpdate", netuid)[uid]
    limit = state.get(PALLET, "WeightsSetRateLimit", netuid)
    if too_fast is not None and updated and call.block - updated < limit:
        raise DispatchFailure(too_fast)
    return uid


def _write(state: Draft, call: Call, *, update: bool = True) -> list[Event]:
    """Check the weights themselves, and store them."""
    netuid, targets = call.arguments["netuid"], list(call.arguments["dests"])
    values, uid = list(call.arguments["weights"]), subnet.uid_of(state, netuid, call.signer)
    assert uid is not None
    if len(targets) != len(values):
        raise DispatchFailure("WeightVecNotEqualSize")
    to_itself = targets == [uid]
    if not (to_itself or state.get(PALLET, "ValidatorPermit", netuid)[uid]):
        raise DispatchFailure("NeuronNoValidatorPermit")
    if len(set(targets)) != len(targets):
        raise DispatchFailure("DuplicateUids")
    if any(target >= subnet.size(state, netuid) for target in targets):
        raise DispatchFailure("UidVecContainInvalidOne")
    if not to_itself and len(targets) < state.get(PALLET, "MinAllowedWeights", netuid):
        raise DispatchFailure("WeightVecLengthIsLow")
    state.put(PALLET, "Weights", netuid, uid, value=list(zip(targets, max_upscaled(values), strict=True)))
    if update:
        _mark_update(state, netuid, uid, call.block)
    return [Event(PALLET, "WeightsSet", (netuid, uid))]


def _mark_update(state: Draft, netuid: int, uid: int, block: int) -> None:
    updates = list(state.get(PALLET, "LastUpdate", netuid))
    updates[uid] = block
    state.put(PALLET, "LastUpdate", netuid, value=updates)


def max_upscaled(values: list[int]) -> list[int]:
    """Scale u16 weights so that the largest is 65535, as the pallet does before it stores them."""
    top = max(values, default=0)
    if top in (0, U16_MAX):
        return values
    return [value * U16_MAX // top for value in values]
