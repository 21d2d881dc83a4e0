"""The parts of the subnet pallet's state that calls, epochs and the admin door all touch."""

from __future__ import annotations

from dataclasses import dataclass

from neurons.localnet.state import Draft, View

PALLET = "SubtensorModule"
U16_MAX = 65535
RAO_PER_TAO = 10**9
MECHANISM_STRIDE = 4096
"""Weights of mechanism m of subnet n are stored at m * 4096 + n."""
_NEURON_VECTORS = {
    "Active": True,
    "ValidatorPermit": False,
    "LastUpdate": 0,
    "Incentive": 0,
    "Dividends": 0,
    "Consensus": 0,
}


@dataclass(frozen=True, slots=True)
class SubnetOptions:
    """What a new subnet is like. Blocks are counted in this chain's blocks, amounts in TAO.

    Tempo and rate limit are far shorter than mainnet's 360 and 100 blocks, so that a demo does not wait; the
    stake threshold is mainnet's.
    """

    tempo: int = 20
    weights_rate_limit: int = 10
    max_uids: int = 256
    max_validators: int = 64
    min_allowed_weights: int = 0
    stake_threshold_tao: float = 1000.0
    burn_tao: float = 0.1


def rao(tao: float) -> int:
    """TAO to its smallest unit. Raises ValueError for a negative amount."""
    if tao < 0:
        raise ValueError(f"{tao} TAO is negative")
    return round(tao * RAO_PER_TAO)


def fund(state: Draft, address: str, tao: float) -> None:
    """Add free balance to an account, out of nothing."""
    account = state.get("System", "Account", address)
    account["data"]["free"] += rao(tao)
    account["providers"] = max(1, account["providers"])
    state.put("System", "Account", address, value=account)


def exists(state: View, netuid: int) -> bool:
    """Whether there is such a subnet."""
    return bool(state.get(PALLET, "NetworksAdded", netuid))


def netuids(state: View) -> list[int]:
    """All subnets, in order."""
    prefix = state.codec.storage_key(PALLET, "NetworksAdded")
    # The map's hasher keeps the key's own bytes at the end: a little-endian u16.
    return sorted(
        int.from_bytes(key[-2:], "little") for key in state.reader.keys(prefix, prefix, MECHANISM_STRIDE)
    )


def create(
    state: Draft, netuid: int, *, owner_coldkey: str, owner_hotkey: str, block: int, options: SubnetOptions
) -> None:
    """Create a subnet; its owner's hotkey takes uid 0, as on the real chain. Raises ValueError."""
    if exists(state, netuid):
        raise ValueError(f"subnet {netuid} exists already")
    for item, value in {
        "NetworksAdded": True,
        "NetworkRegistrationAllowed": True,
        "NetworkRegisteredAt": block,
        "SubnetworkN": 0,
        "SubnetOwner": owner_coldkey,
        "SubnetOwnerHotkey": owner_hotkey,
        "Tempo": options.tempo,
        "LastEpochBlock": block,
        "WeightsSetRateLimit": options.weights_rate_limit,
        "CommitRevealWeightsEnabled": False,
        "RevealPeriodEpochs": 1,
        "MinAllowedWeights": options.min_allowed_weights,
        "MaxWeightsLimit": U16_MAX,
        "MaxAllowedUids": options.max_uids,
        "MaxAllowedValidators": options.max_validators,
        "Burn": rao(options.burn_tao),
    }.items():
        state.put(PALLET, item, netuid, value=value)
    state.put(PALLET, "StakeThreshold", value=rao(options.stake_threshold_tao))
    append_neuron(state, netuid, hotkey=owner_hotkey, coldkey=owner_coldkey, block=block)


def append_neuron(state: Draft, netuid: int, *, hotkey: str, coldkey: str, block: int) -> int:
    """Give a hotkey the next uid. Registration counts as an update, so weights are rate-limited after it."""
    uid = size(state, netuid)
    state.put(PALLET, "Keys", netuid, uid, value=hotkey)
    state.put(PALLET, "Uids", netuid, hotkey, value=uid)
    state.put(PALLET, "IsNetworkMember", hotkey, netuid, value=True)
    state.put(PALLET, "Owner", hotkey, value=coldkey)
    state.put(PALLET, "BlockAtRegistration", netuid, uid, value=block)
    state.put(PALLET, "SubnetworkN", netuid, value=uid + 1)
    for item, first in _NEURON_VECTORS.items():
        vector = [*state.get(PALLET, item, netuid), block if item == "LastUpdate" else first]
        state.put(PALLET, item, netuid, value=vector)
    refresh_permits(state, netuid)
    return uid


def size(state: View, netuid: int) -> int:
    """How many neurons a subnet has."""
    return int(state.get(PALLET, "SubnetworkN", netuid))


def uid_of(state: View, netuid: int, hotkey: str) -> int | None:
    """The uid of a hotkey, or None."""
    uid = state.get(PALLET, "Uids", netuid, hotkey)
    return None if uid is None else int(uid)


def stake_of(state: View, netuid: int, hotkey: str) -> int:
    """A hotkey's stake on a subnet, in rao."""
    return int(state.get(PALLET, "TotalHotkeyAlpha", hotkey, netuid))


def stakes(state: View, netuid: int) -> list[int]:
    """All stakes on a subnet by uid, in rao."""
    return [
        stake_of(state, netuid, state.get(PALLET, "Keys", netuid, uid)) for uid in range(size(state, netuid))
    ]


def set_stake(state: Draft, netuid: int, hotkey: str, tao: float) -> None:
    """Set a hotkey's stake, out of nothing, and recompute permits at once."""
    state.put(PALLET, "TotalHotkeyAlpha", hotkey, netuid, value=rao(tao))
    refresh_permits(state, netuid)


def refresh_permits(state: Draft, netuid: int) -> None:
    """Validator permits: the largest stakes, up to MaxAllowedValidators, that reach the stake threshold."""
    threshold = max(1, int(state.get(PALLET, "StakeThreshold")))
    held = stakes(state, netuid)
    ranked = sorted(
        (uid for uid, stake in enumerate(held) if stake >= threshold), key=lambda u: (-held[u], u)
    )
    permitted = set(ranked[: int(state.get(PALLET, "MaxAllowedValidators", netuid))])
    state.put(PALLET, "ValidatorPermit", netuid, value=[uid in permitted for uid in range(len(held))])
