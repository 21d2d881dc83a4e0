"""Plays the episodes of a worker for real: in a sandbox, under a recorder, against a model provider."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from arena.episode import EpisodeRecord, play
from arena.paying import OwnKeys, Paid
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Limits, Sandbox, SlotQuarantined
from arena.sealing import NoSealingKey, Sealed
from arena.worker import Assignment
from problems.environment import Environment


class SandboxedPlayer:
    """A `Player`: each episode in its slot of the sandbox, with limits and budget by its race's rules."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        sandbox: Sandbox,
        upstream: Upstream,
        *,
        socket_root: Path,
        first_slot: int = 0,
        own_keys: OwnKeys | None = None,
    ) -> None:
        """`environments` is by suite id. `first_slot` keeps the slots of several workers on a host apart.

        `own_keys` opens the keys of miners that pay themselves; without it their episodes cannot be played.
        """
        self._environments = environments
        self._sandbox = sandbox
        self._upstream = upstream
        self._socket_root = socket_root
        self._first_slot = first_slot
        self._own_keys = own_keys

    async def play(self, assignment: Assignment, slot: int) -> EpisodeRecord:
        """Play it.

        Raises SlotQuarantined where that slot is out of use, and KeyError for a suite without an environment:
        lease only what can be played. Raises NoSealingKey and EndpointWithdrawn where a miner pays himself
        and we cannot have it so.
        """
        leased, number = assignment.leased, self._first_slot + slot
        if why := self._sandbox.quarantined.get(number):
            raise SlotQuarantined(number, why)
        async with self._paid(assignment.sealed) as paid:
            return await play(
                episode_id=str(leased.episode_id),
                source=assignment.source,
                problem=assignment.problem,
                environment=self._environments[leased.suite_id],
                sandbox=self._sandbox,
                limits=Limits(**assignment.rules.sandbox.model_dump()),
                slot=number,
                upstream=paid.upstream,
                budget=Budget(**assignment.rules.budget.model_dump()),
                seed=leased.seed,
                socket_root=self._socket_root,
                dead_key=paid.dead_key,
            )

    def _paid(self, sealed: Sealed | None) -> AbstractAsyncContextManager[Paid]:
        if sealed is None:
            return nullcontext(Paid(self._upstream))
        if self._own_keys is None:
            raise NoSealingKey("this process was not given what opens miners' own keys")
        return self._own_keys.paying(sealed)
