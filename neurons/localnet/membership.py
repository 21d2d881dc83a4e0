"""Becoming part of a subnet: registration, stake, and the endpoint where one can be reached."""

from __future__ import annotations

from typing import Any

from neurons.localnet import subnet
from neurons.localnet.calls import Call, DispatchFailure, Event
from neurons.localnet.state import Draft
from neurons.localnet.subnet import PALLET

_IP_VERSIONS = {4: 32, 6: 128}
"""Bits of an address."""
_AXON = ("version", "ip", "port", "ip_type", "protocol", "placeholder1", "placeholder2")


def burned_register(state: Draft, call: Call) -> list[Event]:
    """`burned_register`: pay the burn price for a uid; a full subnet gives up its least earning one."""
    netuid, hotkey = call.arguments["netuid"], call.arguments["hotkey"]
    if not subnet.exists(state, netuid):
        raise DispatchFailure("SubnetNotExists")
    if not state.get(PALLET, "NetworkRegistrationAllowed", netuid):
        raise DispatchFailure("SubNetRegistrationDisabled")
    if subnet.uid_of(state, netuid, hotkey) is not None:
        raise DispatchFailure("HotKeyAlreadyRegisteredInSubNet")
    full = subnet.size(state, netuid) >= state.get(PALLET, "MaxAllowedUids", netuid)
    pruned = subnet.uid_to_prune(state, netuid, call.block) if full else None
    if full and pruned is None:
        raise DispatchFailure("NoNeuronIdAvailable")
    if any(
        subnet.uid_of(state, other, hotkey) is not None and state.get(PALLET, "Owner", hotkey) != call.signer
        for other in subnet.netuids(state)
    ):
        raise DispatchFailure("NonAssociatedColdKey")
    _pay(state, call.signer, state.get(PALLET, "Burn", netuid))
    keys = {"hotkey": hotkey, "coldkey": call.signer, "block": call.block}
    if pruned is None:
        uid = subnet.append_neuron(state, netuid, **keys)
    else:
        uid = pruned
        subnet.replace_neuron(state, netuid, uid, **keys)
    return [Event(PALLET, "NeuronRegistered", (netuid, uid, hotkey))]


def add_stake(state: Draft, call: Call) -> list[Event]:
    """`add_stake`: free balance becomes stake on the hotkey, one alpha a TAO, for there is no pool here."""
    netuid, hotkey = call.arguments["netuid"], call.arguments["hotkey"]
    amount = call.arguments["amount_staked"]
    if not subnet.exists(state, netuid):
        raise DispatchFailure("SubnetNotExists")
    if state.codec.is_default(PALLET, "Owner", state.get(PALLET, "Owner", hotkey)):
        raise DispatchFailure("HotKeyAccountNotExists")
    _pay(state, call.signer, amount)
    subnet.add_stake(state, netuid, hotkey, amount)
    return [Event(PALLET, "StakeAdded", (call.signer, hotkey, amount, amount, netuid, 0))]


def serve_axon(state: Draft, call: Call) -> list[Event]:
    """`serve_axon`: publish an address. Loopback addresses are refused by the real chain, and taken here."""
    netuid = call.arguments["netuid"]
    if subnet.uid_of(state, netuid, call.signer) is None:
        raise DispatchFailure("HotKeyNotRegisteredInNetwork")
    bits = _IP_VERSIONS.get(call.arguments["ip_type"])
    if bits is None:
        raise DispatchFailure("InvalidIpType")
    if not 0 < call.arguments["ip"] < (1 << bits) - 1:
        raise DispatchFailure("InvalidIpAddress")
    if not call.arguments["port"]:
        raise DispatchFailure("InvalidPort")
    served = state.get(PALLET, "Axons", netuid, call.signer)
    limit = state.get(PALLET, "ServingRateLimit", netuid)
    if served is not None and call.block - served["block"] < limit:
        raise DispatchFailure("ServingRateLimitExceeded")
    axon = {name: value for name, value in call.arguments.items() if name in _AXON}
    state.put(PALLET, "Axons", netuid, call.signer, value={**axon, "block": call.block})
    return [Event(PALLET, "AxonServed", (netuid, call.signer))]


def _pay(state: Draft, address: str, amount: int) -> None:
    account: dict[str, Any] = state.get("System", "Account", address)
    if account["data"]["free"] < amount:
        raise DispatchFailure("NotEnoughBalanceToStake")
    account["data"]["free"] -= amount
    state.put("System", "Account", address, value=account)
