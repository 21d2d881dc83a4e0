"""The calls this chain executes.

Only what an arena needs is here: registration, stake, serving, weights, commitments. Every other call fails
with `System.CallFiltered`, so that nothing seems to work that does not.
"""

from __future__ import annotations

from collections.abc import Callable

from neurons.localnet import commitments, membership, weighing
from neurons.localnet.calls import Call, DispatchFailure, Event
from neurons.localnet.state import Draft
from neurons.localnet.subnet import PALLET

_RULES: dict[tuple[str, str], Callable[[Draft, Call], list[Event]]] = {
    (PALLET, "burned_register"): membership.burned_register,
    (PALLET, "add_stake"): membership.add_stake,
    (PALLET, "serve_axon"): membership.serve_axon,
    (PALLET, "set_weights"): weighing.set_weights,
    (PALLET, "set_mechanism_weights"): weighing.set_mechanism_weights,
    (PALLET, "commit_timelocked_weights"): weighing.commit_weights,
    (PALLET, "commit_timelocked_mechanism_weights"): weighing.commit_mechanism_weights,
    (commitments.PALLET, "set_commitment"): commitments.set_commitment,
}


def execute(state: Draft, pallet: str, function: str, call: Call) -> list[Event]:
    """Execute a call on `state`. Raises DispatchFailure; the caller then drops `state`."""
    rule = _RULES.get((pallet, function))
    if rule is None:
        raise DispatchFailure("CallFiltered", "System")
    return rule(state, call)
