"""The bodies of the API's answers. None has a field for source, prompts or answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, StringConstraints

from arena.leaderboard import Row
from problems.problem import Problem

_HOTKEY = "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"
_ID = "7f2f6c2e-0d0e-4f43-9a58-3a0f6c2a1b11"
_SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_AT = "2026-03-01T12:00:00Z"


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(frozen=True, json_schema_extra={"examples": [values]})


class SubmissionReceipt(_Answer):
    """A submission that was taken. `new` is False when this hotkey had sent this very source before."""

    model_config = _example(
        submission_id=_ID, source_sha256=_SHA, submitted_at=_AT, new=True, commitment_block=4_200_000
    )

    submission_id: UUID
    source_sha256: str
    submitted_at: datetime
    new: bool
    commitment_block: int | None
    """The block in which the hotkey committed to this source; null when it did not."""
    paid_by: Literal["house", "miner"] = "house"
    """Whose key its model calls are made with."""


class SealingKeyAnswer(_Answer):
    """To whom a miner may seal a model key of its own, and where that key may go."""

    model_config = _example(
        public_key="8f" * 32,
        hotkey=_HOTKEY,
        signature="a1" * 64,
        endpoints={"openrouter": "https://openrouter.ai/api/v1"},
    )

    public_key: str
    """X25519, in hex."""
    hotkey: str
    signature: str
    """The hotkey's, in hex, over `agent arena, sealing key, version 1: ` and the 32 bytes of the key."""
    endpoints: dict[str, str]
    """Addresses by name: the name is what is sent with the sealed key."""


class CollectionAttempt(_Answer):
    """One attempt to collect this hotkey's source from its node. `code` is stable; `detail` is for people."""

    model_config = _example(
        at=_AT,
        source_sha256=_SHA,
        code="too_slow",
        detail="no whole answer came within 30 s",
        final=False,
        submission_id=None,
    )

    at: datetime
    source_sha256: str
    code: str
    detail: str
    final: bool
    """Whether this source will not be asked for again."""
    submission_id: UUID | None


class Progress(_Answer):
    """Where a submission stands in one phase of a race. Verdicts are in the feedback, when it is over."""

    race: int
    phase: str
    race_state: str
    role: str | None
    episodes: int
    done: int
    qualifying_score: float | None


class SubmissionSummary(_Answer):
    """One of a hotkey's own submissions, in the list of them."""

    submission_id: UUID
    name: str
    source_sha256: str
    state: str
    refusal: str | None
    submitted_at: datetime
    commitment_block: int | None


class SubmissionStatus(SubmissionSummary):
    """A submission as its own hotkey sees it."""

    progress: tuple[Progress, ...]


class Feedback(_Answer):
    """How one's own agent did on one problem. Says which rules failed, never what they wanted."""

    model_config = _example(
        race=12,
        phase="race",
        problem_id=None,
        category="voucher",
        repeat=0,
        verdict="failed",
        failed_rules=["price", "budget"],
        reason=None,
        gate="grounded",
        grade=0.6,
        model_emitted=7,
        scripted=0,
        prompt_tokens=18_204,
        completion_tokens=1_310,
        wall_s=41.3,
    )

    race: int
    phase: str
    problem_id: str | None
    """Of the hidden draw only once the race has settled; null before."""
    category: str
    repeat: int
    verdict: str
    failed_rules: tuple[str, ...]
    """Classes of rules that did not hold: price, title, budget, ..."""
    reason: str | None
    """Why there was nothing to hold against the rules: crashed, wall, budget, ..., or whose fault it was."""
    gate: str | None
    """The last gate of the judge's rubric that was passed; null when it has not judged."""
    grade: float | None
    model_emitted: int
    scripted: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float


class RaceSummary(_Answer):
    """A race in the list of races."""

    number: int
    state: str
    paused: bool
    rules_hash: str
    opened_at: datetime
    boundary_at: datetime | None
    settled_at: datetime | None
    void_reason: str | None


class RaceDetail(RaceSummary):
    """A race. What it drew and how it was decided is shown once it has settled."""

    pool_suite: str
    public_suite: str
    pool_root: str
    """Merkle root over the pool that the hidden set is drawn from."""
    public_root: str
    champion: UUID | None
    entrants: int
    draw_block: int | None
    draw_block_hash: str | None
    drawn: tuple[str, ...] | None
    settlement: dict[str, Any] | None
    """Until the embargo ends, reasons for what was left out are cut to their kind: agents wrote the rest."""
    public_at: datetime | None
    """When its entrants' sources and its traces become public; null until it has settled."""


class SignedAnswer(_Answer):
    """A validator's result of a race, and its signature."""

    hotkey: str
    body: str
    """Canonical JSON: these very bytes are signed."""
    signature: str
    """The hotkey's (sr25519), in hex, over `agent arena, race result, version 1: ` and the body."""


class ProblemResult(_Answer):
    """How all entrants of a settled race did on one drawn problem."""

    model_config = _example(
        problem_id="p-0192", category="product", counted=True, left_out=None, scores={_ID: 0.85}
    )

    problem_id: str
    category: str
    counted: bool
    left_out: str | None
    """Why it did not count, in one word; null when it did."""
    scores: dict[str, float]
    """By agent; empty when it did not count."""


class Standings(_Answer):
    """The standings of one phase of one race, best first, in pages."""

    race: int
    phase: Literal["qualifying", "race"]
    rows: tuple[Row, ...]
    withdrawn: dict[str, str]
    """Agents without a score, with the reason."""
    next: str | None


class Agent(_Answer):
    """An accepted submission, as everybody sees it."""

    model_config = _example(
        submission_id=_ID,
        name="careful shopper",
        hotkey=_HOTKEY,
        source_sha256=_SHA,
        submitted_at=_AT,
        commitment_block=4_200_000,
        races=[11, 12],
        public=False,
        public_at="2026-03-03T00:10:00Z",
    )

    submission_id: UUID
    name: str
    hotkey: str
    source_sha256: str
    submitted_at: datetime
    commitment_block: int | None
    races: tuple[int, ...]
    public: bool
    """Whether its source may be had."""
    public_at: datetime | None
    """From when on; null while no race of it has settled."""


class SuiteSummary(_Answer):
    """A suite of problems: what it commits to. `role` is public (qualifying) or pool (hidden draws)."""

    suite_id: str
    name: str
    role: str
    environment: str
    environment_version: str
    catalog_id: str
    scorer: str
    options: dict[str, Any]
    """How it is played and scored where the environment leaves a choice."""
    root: str


class SuiteDetail(SuiteSummary):
    """A suite's manifest. Its published problems are a list of their own."""

    categories: dict[str, int]
    """Problems by category, the hidden ones included."""


class PublishedProblem(_Answer):
    """A problem as agents saw it: of a public suite, or of a hidden draw whose race has settled."""

    problem: Problem
    drawn_in: tuple[int, ...]
    """The settled races that drew it."""


class TraceSummary(_Answer):
    """A trace of a race whose embargo is over."""

    trace_id: UUID
    race: int
    phase: str
    agent: UUID
    agent_name: str
    problem_id: str
    category: str
    repeat: int
    verdict: str
    failed_rules: tuple[str, ...]
    reason: str | None
    judge: str | None
    rubric: str | None
    gate: str | None
    grade: float | None
    model_emitted: int
    scripted: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float
    recorded_at: datetime
    chain_head: str
    """The last hash of the events that the trace was made from."""


class RulesAnswer(_Answer):
    """The constants of a race, or of the next one, and the hash that stands in the race."""

    rules_hash: str
    rules: dict[str, Any]


class Health(_Answer):
    """Whether this process and its database answer, and whose it is: the receiver to sign requests for."""

    model_config = _example(status="ok", hotkey=_HOTKEY)

    status: str
    hotkey: str


class Reason(BaseModel):
    """Why an operator does something. Everybody can read it."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [{"reason": "the provider is down"}]}
    )

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class AuditAnswer(_Answer):
    """What an operator did."""

    model_config = _example(
        number=7,
        at=_AT,
        operator=_HOTKEY,
        action="pause",
        race=12,
        reason="the provider is down",
        effect={"was_paused": False},
    )

    number: int
    at: datetime
    operator: str
    action: str
    race: int | None
    reason: str
    effect: dict[str, Any]
