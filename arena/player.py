"""Plays the episodes of a worker for real: in a sandbox, under a recorder, against a model provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from arena.episode import EpisodeRecord, play
from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Limits, Sandbox, SlotQuarantined
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
    ) -> None:
        """`environments` is by suite id. `first_slot` keeps the slots of several workers on a host apart."""
        self._environments = environments
        self._sandbox = sandbox
        self._upstream = upstream
        self._socket_root = socket_root
        self._first_slot = first_slot

    async def play(self, assignment: Assignment, slot: int) -> EpisodeRecord:
        """Play it.

        Raises SlotQuarantined where that slot is out of use, and KeyError for a suite without an environment:
        lease only what can be played.
        """
        leased, number = assignment.leased, self._first_slot + slot
        if why := self._sandbox.quarantined.get(number):
            raise SlotQuarantined(number, why)
        return await play(
            episode_id=str(leased.episode_id),
            source=assignment.source,
            problem=assignment.problem,
            environment=self._environments[leased.suite_id],
            sandbox=self._sandbox,
            limits=Limits(**assignment.rules.sandbox.model_dump()),
            slot=number,
            upstream=self._upstream,
            budget=Budget(**assignment.rules.budget.model_dump()),
            seed=leased.seed,
            socket_root=self._socket_root,
        )
