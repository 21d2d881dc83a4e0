"""The calls this chain executes, and the rules under which it refuses them.

Only what an arena needs is here: registration, plain weights, commitments. The order of the checks and the
names of the errors follow the documentation in the runtime's metadata. Every other call fails with
`System.CallFiltered`, so that nothing seems to work that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neurons.localnet import subnet
from neurons.localnet.state import Draft
from neurons.localnet.subnet import MECHANISM_STRIDE, PALLET, U16_MAX

_MAX_COMMITMENT_FIELDS = 3


class DispatchFailure(Exception):
    """A call that was included in a block and failed there, by pallet and error name."""

    def __init__(self, name: str, pallet: str = PALLET) -> None:
        super().__init__(f"{pallet}.{name}")
        self.pallet = pallet
        self.name = name


@dataclass(frozen=True, slots=True)
class Event:
    """An event that a call deposits."""

    pallet: str
    name: str
    attributes: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its signer and the block that executes it."""

    signer: str
    block: int
    arguments: Mapping[str, Any]


def execute(state: Draft, pallet: str, function: str, call: Call) -> list[Event]:
    """Execute a call on `state`. Raises DispatchFailure; the caller then drops `state`."""
    rule = _RULES.get((pallet, function))
    if rule is None:
        raise DispatchFailure("CallFiltered", "System")
    return rule(state, call)


def _burned_register(state: Draft, call: Call) -> list[Event]:
    netuid, hotkey = call.arguments["netuid"], call.arguments["hotkey"]
    if not subnet.exists(state, netuid):
        raise DispatchFailure("SubnetNotExists")
    if not state.get(PALLET, "NetworkRegistrationAllowed", netuid):
        raise DispatchFailure("SubNetRegistrationDisabled")
    if subnet.uid_of(state, netuid, hotkey) is not None:
        raise DispatchFailure("HotKeyAlreadyRegisteredInSubNet")
    if subnet.size(state, netuid) >= state.get(PALLET, "MaxAllowedUids", netuid):
        raise DispatchFailure("NoNeuronIdAvailable")
    if any(
        subnet.uid_of(state, other, hotkey) is not None and state.get(PALLET, "Owner", hotkey) != call.signer
        for other in subnet.netuids(state)
    ):
        raise DispatchFailure("NonAssociatedColdKey")
    account = state.get("System", "Account", call.signer)
    price = state.get(PALLET, "Burn", netuid)
    if account["data"]["free"] < price:
        raise DispatchFailure("NotEnoughBalanceToStake")
    account["data"]["free"] -= price
    state.put("System", "Account", call.signer, value=account)
    uid = subnet.append_neuron(state, netuid, hotkey=hotkey, coldkey=call.signer, block=call.block)
    return [Event(PALLET, "NeuronRegistered", (netuid, uid, hotkey))]


def _set_weights(state: Draft, call: Call) -> list[Event]:
    return _set_mechanism_weights(state, Call(call.signer, call.block, {**call.arguments, "mecid": 0}))


def _set_mechanism_weights(state: Draft, call: Call) -> list[Event]:
    netuid, mechanism = call.arguments["netuid"], call.arguments["mecid"]
    targets, values = list(call.arguments["dests"]), list(call.arguments["weights"])
    if not subnet.exists(state, netuid) or mechanism != 0:
        raise DispatchFailure("MechanismDoesNotExist")
    if state.get(PALLET, "CommitRevealWeightsEnabled", netuid):
        raise DispatchFailure("CommitRevealEnabled")
    if len(targets) != len(values):
        raise DispatchFailure("WeightVecNotEqualSize")
    if len(targets) > subnet.size(state, netuid):
        raise DispatchFailure("UidsLengthExceedUidsInSubNet")
    uid = subnet.uid_of(state, netuid, call.signer)
    if uid is None:
        raise DispatchFailure("HotKeyNotRegisteredInSubNet")
    if subnet.stake_of(state, netuid, call.signer) < state.get(PALLET, "StakeThreshold"):
        raise DispatchFailure("NotEnoughStakeToSetWeights")
    if call.arguments["version_key"] < state.get(PALLET, "WeightsVersionKey", netuid):
        raise DispatchFailure("IncorrectWeightVersionKey")
    updates = list(state.get(PALLET, "LastUpdate", netuid))
    if updates[uid] and call.block - updates[uid] < state.get(PALLET, "WeightsSetRateLimit", netuid):
        raise DispatchFailure("SettingWeightsTooFast")
    to_itself = targets == [uid]
    if not (to_itself or state.get(PALLET, "ValidatorPermit", netuid)[uid]):
        raise DispatchFailure("NeuronNoValidatorPermit")
    if len(set(targets)) != len(targets):
        raise DispatchFailure("DuplicateUids")
    if any(target >= subnet.size(state, netuid) for target in targets):
        raise DispatchFailure("UidVecContainInvalidOne")
    if not to_itself and len(targets) < state.get(PALLET, "MinAllowedWeights", netuid):
        raise DispatchFailure("WeightVecLengthIsLow")
    index = mechanism * MECHANISM_STRIDE + netuid
    row = list(zip(targets, max_upscaled(values), strict=True))
    state.put(PALLET, "Weights", index, uid, value=row)
    updates[uid] = call.block
    state.put(PALLET, "LastUpdate", index, value=updates)
    return [Event(PALLET, "WeightsSet", (index, uid))]


def _set_commitment(state: Draft, call: Call) -> list[Event]:
    netuid, info = call.arguments["netuid"], call.arguments["info"]
    if subnet.uid_of(state, netuid, call.signer) is None:
        raise DispatchFailure("AccountNotAllowedCommit", "Commitments")
    if len(info["fields"]) > _MAX_COMMITMENT_FIELDS:
        raise DispatchFailure("TooManyFieldsInCommitmentInfo", "Commitments")
    registration = {"deposit": 0, "block": call.block, "info": info}
    state.put("Commitments", "CommitmentOf", netuid, call.signer, value=registration)
    return [Event("Commitments", "Commitment", {"netuid": netuid, "who": call.signer})]


def max_upscaled(values: list[int]) -> list[int]:
    """Scale u16 weights so that the largest is 65535, as the pallet does before it stores them."""
    top = max(values, default=0)
    if top in (0, U16_MAX):
        return values
    return [value * U16_MAX // top for value in values]


_RULES: dict[tuple[str, str], Callable[[Draft, Call], list[Event]]] = {
    (PALLET, "burned_register"): _burned_register,
    (PALLET, "set_weights"): _set_weights,
    (PALLET, "set_mechanism_weights"): _set_mechanism_weights,
    ("Commitments", "set_commitment"): _set_commitment,
}
