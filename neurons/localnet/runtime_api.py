"""The runtime APIs that the SDK calls, answered from storage."""

from __future__ import annotations

from typing import Any

from neurons.localnet import subnet
from neurons.localnet.codec import Runtime, ss58_of
from neurons.localnet.state import View
from neurons.localnet.subnet import PALLET
from neurons.localnet.yuma import U16_MAX

_NO_AXON = {
    "block": 0,
    "version": 0,
    "ip": 0,
    "port": 0,
    "ip_type": 0,
    "protocol": 0,
    "placeholder1": 0,
    "placeholder2": 0,
}
_COLUMNS = (
    *("Active", "ValidatorPermit", "LastUpdate", "Incentive"),
    *("Dividends", "Consensus", "ValidatorTrust", "Emission"),
)
_METAGRAPHS = ("get_metagraph", "get_mechagraph", "get_selective_metagraph", "get_selective_mechagraph")
_NO_PROMETHEUS = {"block": 0, "version": 0, "ip": 0, "port": 0, "ip_type": 0}


class UnknownRuntimeApi(LookupError):
    """This chain does not answer that runtime API."""


def call(view: View, runtime: Runtime, name: str, arguments: bytes) -> bytes:
    """Answer `Api_method` with SCALE arguments, as of a block and its runtime. Raises UnknownRuntimeApi."""
    codec = view.codec
    if name == "Metadata_metadata_at_version":
        return runtime.metadata_option if arguments == (15).to_bytes(4, "little") else b"\x00"
    if name == "Metadata_metadata_versions":
        return b"\x04" + (15).to_bytes(4, "little")
    api, _, method = name.partition("_")
    if method == "account_nonce":
        nonce = view.get("System", "Account", ss58_of(arguments[:32]))["nonce"]
        return codec.encode_api_result(api, method, nonce)
    if method == "query_info":
        # Nothing is charged; the weight only has to be there.
        info = {"weight": {"ref_time": 0, "proof_size": 0}, "class": "Normal", "partial_fee": 0}
        return codec.encode_api_result(api, method, info)
    netuid = int.from_bytes(arguments[:2], "little")
    if method == "get_neurons_lite":
        return codec.encode_api_result(api, method, neurons(view, netuid))
    if method == "get_neuron_lite":
        uid = int.from_bytes(arguments[2:4], "little")
        known = uid < subnet.size(view, netuid)
        return codec.encode_api_result(api, method, neurons(view, netuid)[uid] if known else None)
    if method == "get_next_epoch_start_block":
        tempo = view.get(PALLET, "Tempo", netuid) if subnet.exists(view, netuid) else 0
        next_at = view.get(PALLET, "LastEpochBlock", netuid) + tempo if tempo else None
        return codec.encode_api_result(api, method, next_at)
    if method in _METAGRAPHS:
        return codec.encode_api_result(api, method, metagraph(view, netuid, method))
    raise UnknownRuntimeApi(f"this local chain has no runtime API {name}")


def neurons(view: View, netuid: int) -> list[dict[str, Any]]:
    """All neurons of a subnet as `NeuronInfoLite` records."""
    column = {item: view.get(PALLET, item, netuid) for item in _COLUMNS}
    records = []
    for uid in range(subnet.size(view, netuid)):
        hotkey = view.get(PALLET, "Keys", netuid, uid)
        coldkey = view.get(PALLET, "Owner", hotkey)
        records.append(
            {
                "hotkey": hotkey,
                "coldkey": coldkey,
                "uid": uid,
                "netuid": netuid,
                "active": column["Active"][uid],
                "axon_info": view.get(PALLET, "Axons", netuid, hotkey) or _NO_AXON,
                "prometheus_info": _NO_PROMETHEUS,
                "stake": [(coldkey, subnet.stake_of(view, netuid, hotkey))],
                "rank": 0,
                "emission": column["Emission"][uid],
                "incentive": column["Incentive"][uid],
                "consensus": column["Consensus"][uid],
                "trust": 0,
                "validator_trust": column["ValidatorTrust"][uid],
                "dividends": column["Dividends"][uid],
                "last_update": column["LastUpdate"][uid],
                "validator_permit": column["ValidatorPermit"][uid],
                "pruning_score": 0,
            }
        )
    return records


def metagraph(view: View, netuid: int, method: str) -> dict[str, Any] | None:
    """A subnet as the record that one of `_METAGRAPHS` returns, or None when there is no such subnet.

    What this chain does not keep is zero. A selection is answered with everything: a client takes what it
    asked for.
    """
    if not subnet.exists(view, netuid):
        return None
    everyone = neurons(view, netuid)
    stakes = [record["stake"][0][1] for record in everyone]
    zeros = [0] * len(everyone)
    known: dict[str, Any] = {
        "netuid": netuid,
        "name": list(b"local"),
        "symbol": list("α".encode()),
        "identity": None,
        "network_registered_at": view.get(PALLET, "NetworkRegisteredAt", netuid),
        "owner_hotkey": view.get(PALLET, "SubnetOwnerHotkey", netuid),
        "owner_coldkey": view.get(PALLET, "SubnetOwner", netuid),
        "block": view.get("System", "Number"),
        "tempo": view.get(PALLET, "Tempo", netuid),
        "last_step": view.get(PALLET, "LastEpochBlock", netuid),
        "blocks_since_last_step": view.get(PALLET, "BlocksSinceLastStep", netuid),
        "moving_price": {"bits": 0},
        "immunity_period": view.get(PALLET, "ImmunityPeriod", netuid),
        "activity_cutoff": view.get(PALLET, "ActivityCutoff", netuid),
        "kappa": view.get(PALLET, "Kappa", netuid),
        "bonds_moving_avg": view.get(PALLET, "BondsMovingAverage", netuid),
        "serving_rate_limit": view.get(PALLET, "ServingRateLimit", netuid),
        "min_allowed_weights": view.get(PALLET, "MinAllowedWeights", netuid),
        "max_weights_limit": U16_MAX,
        "weights_version": view.get(PALLET, "WeightsVersionKey", netuid),
        "weights_rate_limit": view.get(PALLET, "WeightsSetRateLimit", netuid),
        "max_validators": view.get(PALLET, "MaxAllowedValidators", netuid),
        "num_uids": len(everyone),
        "max_uids": view.get(PALLET, "MaxAllowedUids", netuid),
        "burn": view.get(PALLET, "Burn", netuid),
        "registration_allowed": view.get(PALLET, "NetworkRegistrationAllowed", netuid),
        "pow_registration_allowed": False,
        "commit_reveal_weights_enabled": view.get(PALLET, "CommitRevealWeightsEnabled", netuid),
        "commit_reveal_period": view.get(PALLET, "RevealPeriodEpochs", netuid),
        "liquid_alpha_enabled": False,
        "hotkeys": [record["hotkey"] for record in everyone],
        "coldkeys": [record["coldkey"] for record in everyone],
        "identities": [None] * len(everyone),
        "axons": [record["axon_info"] for record in everyone],
        "active": [record["active"] for record in everyone],
        "validator_permit": [record["validator_permit"] for record in everyone],
        "last_update": [record["last_update"] for record in everyone],
        "incentives": [record["incentive"] for record in everyone],
        "dividends": [record["dividends"] for record in everyone],
        "consensus": [record["consensus"] for record in everyone],
        "emission": [record["emission"] for record in everyone],
        "block_at_registration": [
            view.get(PALLET, "BlockAtRegistration", netuid, uid) for uid in range(len(everyone))
        ],
        "alpha_stake": stakes,
        "total_stake": stakes,
        "tao_dividends_per_hotkey": [],
        "alpha_dividends_per_hotkey": [],
        "validators": None,
        "commitments": None,
    }
    for per_neuron in (
        *("pruning_score", "trust", "rank", "tao_stake"),
        *("collateral_locked", "collateral_min", "collateral_earned"),
    ):
        known[per_neuron] = zeros
    fields = view.codec.api_record_fields("SubnetInfoRuntimeApi", method)
    return {field: known.get(field, 0) for field in fields}
