"""What hotkeys commit to: in plain bytes, or sealed to a round of drand and revealed by the chain.

Source of the rules: the Commitments pallet of Subtensor (pallets/commitments/src/lib.rs).
"""

from __future__ import annotations

from typing import Any

from neurons.localnet import subnet, timelock
from neurons.localnet.calls import Call, DispatchFailure, Event
from neurons.localnet.codec import plain_bytes
from neurons.localnet.state import Draft
from neurons.localnet.subnet import PALLET as SUBNETS

PALLET = "Commitments"
_MAX_FIELDS = 3
_LEAST_SPACE = 100
_REVEALS_KEPT = 10
_SEALED = "TimelockEncrypted"


def set_commitment(state: Draft, call: Call) -> list[Event]:
    """`set_commitment`. It replaces the hotkey's earlier one; its bytes count against a limit per epoch."""
    netuid, info = call.arguments["netuid"], call.arguments["info"]
    if subnet.uid_of(state, netuid, call.signer) is None:
        raise DispatchFailure("AccountNotAllowedCommit", PALLET)
    if len(info["fields"]) > _MAX_FIELDS:
        raise DispatchFailure("TooManyFieldsInCommitmentInfo", PALLET)
    _use_space(state, netuid, call.signer, sum(map(_size, _variants(info))))
    registration = {"deposit": 0, "block": call.block, "info": info}
    state.put(PALLET, "CommitmentOf", netuid, call.signer, value=registration)
    rounds = [content["reveal_round"] for kind, content in _variants(info) if kind == _SEALED]
    waiting = _waiting(state) - {(netuid, call.signer)} | ({(netuid, call.signer)} if rounds else set())
    _store_waiting(state, waiting)
    if rounds:
        attributes: dict[str, Any] = {"netuid": netuid, "who": call.signer, "reveal_round": rounds[0]}
        return [Event(PALLET, "TimelockCommitment", attributes)]
    return [Event(PALLET, "Commitment", {"netuid": netuid, "who": call.signer})]


def reveal_due(state: Draft, block: int) -> list[Event]:
    """Open the sealed commitments whose round is known. A commitment with nothing left in it goes."""
    events: list[Event] = []
    waiting = _waiting(state)
    still = set(waiting)
    for netuid, hotkey in sorted(waiting):
        found = state.get(PALLET, "CommitmentOf", netuid, hotkey)
        fields = [] if found is None else _variants(found["info"])
        kept, revealed = [], []
        for kind, content in fields:
            signature = timelock.pulse(state, content["reveal_round"]) if kind == _SEALED else None
            if signature is None:
                kept.append({kind: content})
                continue
            try:
                sealed = plain_bytes(content["encrypted"])
                revealed.append(timelock.opened(sealed, content["reveal_round"], signature))
            except timelock.StaysShut:
                continue  # As in the pallet: it can never be opened, so it goes.
        if fields and len(kept) == len(fields):
            continue
        if not any(_SEALED in field for field in kept):
            still.discard((netuid, hotkey))
        _keep(state, netuid, hotkey, found, kept)
        if revealed:
            known = list(state.get(PALLET, "RevealedCommitments", netuid, hotkey) or [])
            known += [(content, block) for content in revealed]
            state.put(PALLET, "RevealedCommitments", netuid, hotkey, value=known[-_REVEALS_KEPT:])
            events.append(Event(PALLET, "CommitmentRevealed", {"netuid": netuid, "who": hotkey}))
    if still != waiting:
        _store_waiting(state, still)
    return events


def _keep(state: Draft, netuid: int, hotkey: str, found: Any, kept: list[dict[str, Any]]) -> None:
    if kept:
        info = {**found["info"], "fields": [kept]}
        state.put(PALLET, "CommitmentOf", netuid, hotkey, value={**found, "info": info})
    else:
        state.remove(PALLET, "CommitmentOf", netuid, hotkey)


def _use_space(state: Draft, netuid: int, hotkey: str, size: int) -> None:
    epoch = state.get(SUBNETS, "SubnetEpochIndex", netuid)
    used = state.get(PALLET, "UsedSpaceOf", netuid, hotkey)
    before = used["used_space"] if used and used["last_epoch"] == epoch else 0
    after = before + max(size, _LEAST_SPACE)
    if after > state.get(PALLET, "MaxSpace"):
        raise DispatchFailure("SpaceLimitExceeded", PALLET)
    state.put(PALLET, "UsedSpaceOf", netuid, hotkey, value={"last_epoch": epoch, "used_space": after})


def _waiting(state: Draft) -> set[tuple[int, str]]:
    return {(int(netuid), str(hotkey)) for netuid, hotkey in state.get(PALLET, "TimelockedIndex")}


def _store_waiting(state: Draft, waiting: set[tuple[int, str]]) -> None:
    state.put(PALLET, "TimelockedIndex", value=sorted(waiting))


def _variants(info: Any) -> list[tuple[str, Any]]:
    """(kind, content) of each field, from the codec's form of a bounded vector of enums."""
    return [
        next(iter(field.items())) if isinstance(field, dict) else (str(field), None)
        for field in _flat(info["fields"])
    ]


def _flat(fields: Any) -> list[Any]:
    return [
        inner for field in fields for inner in (_flat(field) if isinstance(field, list | tuple) else [field])
    ]


def _size(field: tuple[str, Any]) -> int:
    kind, content = field
    if kind == _SEALED:
        return len(plain_bytes(content["encrypted"]))
    return int(kind.removeprefix("Raw")) if kind.startswith("Raw") else 32
