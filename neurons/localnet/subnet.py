"""The parts of the subnet pallet's state that calls, epochs and the admin door all touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neurons.localnet import yuma
from neurons.localnet.state import Draft, View
from neurons.localnet.yuma import U16_MAX

PALLET = "SubtensorModule"
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
    "ValidatorTrust": 0,
    "StakeWeight": 0,
    "Emission": 0,
}


@dataclass(frozen=True, slots=True)
class SubnetOptions:
    """What a new subnet is like. Blocks are counted in this chain's blocks, amounts in TAO.

    Tempo, rate limits and immunity are far shorter than mainnet's 360, 100, 50 and 4096 blocks, so that a
    demo does not wait; the stake threshold, `kappa` (a u16 share) and `bonds_moving_average` (millionths) are
    mainnet's. `min_non_immune_uids` is 10 there, which would have a small full subnet give up newcomers.
    """

    tempo: int = 20
    weights_rate_limit: int = 10
    serving_rate_limit: int = 5
    immunity_period: int = 100
    activity_cutoff: int = 5000
    max_uids: int = 256
    min_non_immune_uids: int = 0
    max_validators: int = 64
    min_allowed_weights: int = 0
    kappa: int = 32767
    bonds_moving_average: int = 900_000
    commit_reveal: bool = False
    reveal_period_epochs: int = 1
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
        "ServingRateLimit": options.serving_rate_limit,
        "ImmunityPeriod": options.immunity_period,
        "ActivityCutoff": options.activity_cutoff,
        "ActivityCutoffFactorMilli": 1000 * options.activity_cutoff // max(1, options.tempo),
        "Kappa": options.kappa,
        "BondsMovingAverage": options.bonds_moving_average,
        "CommitRevealWeightsEnabled": options.commit_reveal,
        "RevealPeriodEpochs": options.reveal_period_epochs,
        "MinAllowedWeights": options.min_allowed_weights,
        "MaxWeightsLimit": U16_MAX,
        "MaxAllowedUids": options.max_uids,
        "MinNonImmuneUids": options.min_non_immune_uids,
        "MaxAllowedValidators": options.max_validators,
        "Burn": rao(options.burn_tao),
    }.items():
        state.put(PALLET, item, netuid, value=value)
    state.put(PALLET, "StakeThreshold", value=rao(options.stake_threshold_tao))
    append_neuron(state, netuid, hotkey=owner_hotkey, coldkey=owner_coldkey, block=block)


def append_neuron(state: Draft, netuid: int, *, hotkey: str, coldkey: str, block: int) -> int:
    """Give a hotkey the next uid. Registration counts as an update, so weights are rate-limited after it."""
    uid = size(state, netuid)
    append_neurons(state, netuid, ((hotkey, coldkey),), block=block)
    if stake_of(state, netuid, hotkey):
        refresh_permits(state, netuid)
    return uid


def append_neurons(state: Draft, netuid: int, keys: Iterable[tuple[str, str]], *, block: int) -> None:
    """Give many (hotkey, coldkey) the next uids."""
    first = size(state, netuid)
    uid = first
    for hotkey, coldkey in keys:
        _seat(state, netuid, uid, hotkey=hotkey, coldkey=coldkey, block=block)
        uid += 1
    state.put(PALLET, "SubnetworkN", netuid, value=uid)
    for item, start in _NEURON_VECTORS.items():
        added = [block if item == "LastUpdate" else start] * (uid - first)
        state.put(PALLET, item, netuid, value=[*state.get(PALLET, item, netuid), *added])


def replace_neuron(state: Draft, netuid: int, uid: int, *, hotkey: str, coldkey: str, block: int) -> None:
    """Give a pruned uid to another hotkey. What its predecessor said, served and earned goes with it.

    As in the pallet, what others say of the uid stays, and stops counting: it is older than the registration.
    """
    gone = state.get(PALLET, "Keys", netuid, uid)
    state.remove(PALLET, "Uids", netuid, gone)
    state.remove(PALLET, "IsNetworkMember", gone, netuid)
    state.remove(PALLET, "Axons", netuid, gone)
    state.remove(PALLET, "Weights", netuid, uid)
    state.remove(PALLET, "Bonds", netuid, uid)
    _seat(state, netuid, uid, hotkey=hotkey, coldkey=coldkey, block=block)
    for item, start in _NEURON_VECTORS.items():
        vector = list(state.get(PALLET, item, netuid))
        vector[uid] = block if item == "LastUpdate" else start
        state.put(PALLET, item, netuid, value=vector)
    refresh_permits(state, netuid)


def uid_to_prune(state: View, netuid: int, block: int) -> int | None:
    """Which uid a newcomer gets on a full subnet, or None: the lowest emission outside immunity.

    Then the earliest registration, then the lowest uid. Immune ones are taken, by the same order, when no
    more than `MinNonImmuneUids` others are left; the owner's hotkey never is. Source: `get_neuron_to_prune`
    of the Subtensor pallet (pallets/subtensor/src/subnets/registration.rs).
    """
    owner = state.get(PALLET, "SubnetOwnerHotkey", netuid)
    emission = state.get(PALLET, "Emission", netuid)
    ranked: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
    for uid in range(size(state, netuid)):
        if state.get(PALLET, "Keys", netuid, uid) != owner:
            registered_at = state.get(PALLET, "BlockAtRegistration", netuid, uid)
            immune = block - registered_at < state.get(PALLET, "ImmunityPeriod", netuid)
            ranked[immune].append((emission[uid], registered_at, uid))
    enough = len(ranked[False]) > state.get(PALLET, "MinNonImmuneUids", netuid)
    candidates = ranked[False] if enough else ranked[True]
    return min(candidates)[2] if candidates else None


def _seat(state: Draft, netuid: int, uid: int, *, hotkey: str, coldkey: str, block: int) -> None:
    state.put(PALLET, "Keys", netuid, uid, value=hotkey)
    state.put(PALLET, "Uids", netuid, hotkey, value=uid)
    state.put(PALLET, "IsNetworkMember", hotkey, netuid, value=True)
    state.put(PALLET, "Owner", hotkey, value=coldkey)
    state.put(PALLET, "BlockAtRegistration", netuid, uid, value=block)


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


def add_stake(state: Draft, netuid: int, hotkey: str, amount: int) -> None:
    """Add to a hotkey's stake, in rao, and recompute permits at once."""
    state.put(PALLET, "TotalHotkeyAlpha", hotkey, netuid, value=stake_of(state, netuid, hotkey) + amount)
    refresh_permits(state, netuid)


def owner_uid(state: View, netuid: int) -> int | None:
    """The uid of the owner's hotkey, or None when it has none."""
    return uid_of(state, netuid, state.get(PALLET, "SubnetOwnerHotkey", netuid))


def refresh_permits(state: Draft, netuid: int) -> None:
    """Elect the validators now. The real chain does so at epochs only; here a stake counts at once."""
    permits = yuma.elect(
        stakes(state, netuid),
        stake_threshold=int(state.get(PALLET, "StakeThreshold")),
        max_validators=int(state.get(PALLET, "MaxAllowedValidators", netuid)),
        owner_uid=owner_uid(state, netuid),
    )
    state.put(PALLET, "ValidatorPermit", netuid, value=permits)
