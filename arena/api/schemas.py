"""The bodies of the API's answers. None of them has a field for source, prompts, traces or answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class SubmissionReceipt(_Answer):
    """A submission that was taken. `new` is False when this hotkey had sent this very source before."""

    submission_id: UUID
    source_sha256: str
    submitted_at: datetime
    new: bool
    commitment_block: int | None
    """The block in which the hotkey committed to this source; null when it did not."""


class Progress(_Answer):
    """Where a submission stands in one phase of a race. Verdicts are counted only once the phase is over."""

    race: int
    phase: str
    race_state: str
    role: str | None
    episodes: int
    done: int
    qualifying_score: float | None


class SubmissionStatus(_Answer):
    """A submission as its own hotkey sees it."""

    submission_id: UUID
    name: str
    source_sha256: str
    state: str
    refusal: str | None
    submitted_at: datetime
    commitment_block: int | None
    progress: tuple[Progress, ...]


class RaceSummary(_Answer):
    """A race in the list of races."""

    number: int
    state: str
    rules_hash: str
    opened_at: datetime
    boundary_at: datetime | None
    settled_at: datetime | None
    void_reason: str | None


class RaceDetail(RaceSummary):
    """A race. What it drew and how it was decided is shown once it has settled."""

    pool_root: str
    """Merkle root over the pool that the hidden set is drawn from."""
    public_root: str
    champion: UUID | None
    entrants: int
    draw_block: int | None
    draw_block_hash: str | None
    drawn: tuple[str, ...] | None
    settlement: dict[str, Any] | None


class RulesAnswer(_Answer):
    """The rules that the next race will be opened with."""

    rules_hash: str
    rules: dict[str, Any]


class Health(_Answer):
    """Whether this process and its database answer, and whose it is: the receiver to sign requests for."""

    status: str
    hotkey: str
