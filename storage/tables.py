"""The tables. Times are UTC with zone; ids are UUIDs unless content-addressed.

What was recorded or judged is kept in columns of type `json`, never `jsonb`: `json` keeps the text as it was
written. `jsonb` refuses NUL in strings (an agent or a provider may send it), turns 1e16 into an integer, and
sorts an object's keys; each of these would break a trace's hash chain or change what a model is trained on.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Table(DeclarativeBase):
    """Base of all tables; constraint names are fixed so that migrations can refer to them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
        bytes: LargeBinary,
    }


class Submission(Table):
    """One source file from one hotkey. `state`: received, accepted, refused."""

    __tablename__ = "submission"
    __table_args__ = (UniqueConstraint("hotkey", "source_sha256"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    hotkey: Mapped[str]
    source_sha256: Mapped[str]
    source: Mapped[bytes]
    name: Mapped[str]
    """What the miner calls the agent; shown on the leaderboard, never to a judge."""
    commitment_block: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(default="received")
    refusal: Mapped[str | None]
    submitted_at: Mapped[datetime] = mapped_column(server_default=func.now())
    withdrawn_at: Mapped[datetime | None]
    """When its miner took it out of the races to come."""
    superseded_by: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("submission.id"))
    """The like submission with the earlier commitment, which arrived later."""
    fingerprint_scheme: Mapped[str | None] = mapped_column(index=True)
    """How its fingerprints were taken: those of another scheme, or of none, are to be taken anew."""
    fingerprint_count: Mapped[int | None]
    """How many of its own fingerprints it has, those of the public baselines left out."""


class SealedKey(Table):
    """A model key of the miner's own, for one submission, that only the validator's sealing key opens."""

    __tablename__ = "sealed_key"

    submission_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("submission.id", ondelete="CASCADE"), primary_key=True
    )
    endpoint: Mapped[str]
    """The name of the provider that it goes to."""
    box: Mapped[str]
    """Base64."""
    sealed_at: Mapped[datetime]


class Fingerprint(Table):
    """A fingerprint of a submission's source. Who has one in common with a new source is found by its key."""

    __tablename__ = "fingerprint"

    hash: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    submission_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("submission.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class Refusal(Table):
    """A refusal that makes its hotkey wait. `kind`: security or integrity. The source is not kept."""

    __tablename__ = "refusal"
    __table_args__ = (Index("ix_refusal_hotkey", "hotkey", "refused_at"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    hotkey: Mapped[str]
    source_sha256: Mapped[str]
    kind: Mapped[str]
    code: Mapped[str]
    """The refusal's stable code; `detail` is what its miner was told."""
    detail: Mapped[str]
    refused_at: Mapped[datetime]


class Suite(Table):
    """A problem suite. `role`: public (qualifying) or pool (hidden draws)."""

    __tablename__ = "suite"

    id: Mapped[str] = mapped_column(primary_key=True)
    """`ProblemSuite.suite_id`."""
    name: Mapped[str]
    role: Mapped[str]
    environment: Mapped[str]
    environment_version: Mapped[str] = mapped_column(default="", server_default="")
    catalog_id: Mapped[str]
    scorer: Mapped[str]
    options: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """How it is played and scored where its environment leaves a choice."""
    root: Mapped[str]
    """Merkle root over the suite's problems, published before a race."""


class SuiteProblem(Table):
    """One problem of a suite, with its answer and its leak cluster."""

    __tablename__ = "suite_problem"

    suite_id: Mapped[str] = mapped_column(ForeignKey("suite.id"), primary_key=True)
    problem_id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    category: Mapped[str]
    cluster_id: Mapped[str]
    public: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any]]
    leak_keys: Mapped[list[Any]]


class Race(Table):
    """A race. `state`: qualifying, drawing, racing, judging, settled, void."""

    __tablename__ = "race"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    number: Mapped[int] = mapped_column(unique=True)
    state: Mapped[str] = mapped_column(default="qualifying")
    rules: Mapped[dict[str, Any]]
    rules_hash: Mapped[str]
    public_suite_id: Mapped[str] = mapped_column(ForeignKey("suite.id"))
    pool_suite_id: Mapped[str] = mapped_column(ForeignKey("suite.id"))
    champion_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("submission.id"))
    """Who held the top when the race began."""
    judge: Mapped[str | None]
    """Whose judgements count in this race; those of any other judge or rubric are for comparison only."""
    rubric: Mapped[str | None]
    """By which rubric, with its hash. Both are null in a race for which any judgement counts."""
    opened_at: Mapped[datetime]
    boundary_at: Mapped[datetime | None]
    draw_block: Mapped[int | None] = mapped_column(BigInteger)
    draw_block_hash: Mapped[str | None]
    drawn: Mapped[list[Any] | None]
    """Problem ids of the hidden draw, in order."""
    clustered_with: Mapped[list[Any] | None]
    """The ids of all suites that were stored at the draw. A suite that is stored later may join clusters, and
    the draw can be checked only by those that it was made from."""
    settlement: Mapped[dict[str, Any] | None]
    """The settled race as a value: scores, promotion with its statistics, payout."""
    void_reason: Mapped[str | None]
    settled_at: Mapped[datetime | None]
    paused: Mapped[bool] = mapped_column(default=False, server_default=false())
    """An operator has stopped it for a while: nothing of it is handed out, and it does not move forward."""


class Entrant(Table):
    """A submission in a race. `role`: champion or challenger, null while it only qualifies."""

    __tablename__ = "entrant"

    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"), primary_key=True)
    submission_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("submission.id"), primary_key=True)
    role: Mapped[str | None]
    qualifying_score: Mapped[float | None]


class Episode(Table):
    """One agent attempting one problem once, as a piece of work. `state`: queued, leased, done.

    A done episode has exactly one trace with `final` set; its verdict is the episode's. An Unscored attempt
    that is tried again leaves its trace behind, with `final` unset.
    """

    __tablename__ = "episode"
    __table_args__ = (
        UniqueConstraint("race_id", "phase", "submission_id", "problem_id", "repeat"),
        Index("ix_episode_queue", "position", "id", postgresql_where=text("state <> 'done'")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"))
    phase: Mapped[str]
    """qualifying or race."""
    submission_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("submission.id"))
    suite_id: Mapped[str] = mapped_column(ForeignKey("suite.id"))
    problem_id: Mapped[str]
    repeat: Mapped[int] = mapped_column(default=0)
    seed: Mapped[int] = mapped_column(BigInteger)
    position: Mapped[int] = mapped_column(default=0)
    """Order of play within the phase."""
    state: Mapped[str] = mapped_column(default="queued")
    attempts: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    """Raised with every lease; a write that carries an older fence is refused."""
    leased_by: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    not_before: Mapped[datetime] = mapped_column(server_default=func.now())
    """A retry waits until then."""


class Trace(Table):
    """A trajectory with its verdict and provenance. `verdict`: solved, failed, unscored."""

    __tablename__ = "trace"
    __table_args__ = (
        UniqueConstraint("episode_id", "attempt"),
        Index("ix_trace_recorded", "recorded_at", "id"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    episode_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("episode.id"))
    attempt: Mapped[int]
    final: Mapped[bool]
    verdict: Mapped[str]
    reason: Mapped[str | None]
    """Why it failed or could not be scored; null when solved."""
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    events: Mapped[list[Any]] = mapped_column(JSON)
    chain_head: Mapped[str]
    trajectory: Mapped[dict[str, Any]] = mapped_column(JSON)
    """ATIF."""
    model_emitted: Mapped[int]
    scripted: Mapped[int]
    """Tool calls, told apart (rule 3)."""
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    wall_s: Mapped[float]
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Judged(Table):
    """A judgement of a trace, or one the judge could not give (`grade` null, `unjudged` set)."""

    __tablename__ = "judged"
    __table_args__ = (UniqueConstraint("trace_id", "judge", "rubric"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    trace_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("trace.id"))
    judge: Mapped[str]
    rubric: Mapped[str]
    """Version and hash."""
    grade: Mapped[float | None]
    gate: Mapped[str | None]
    rationale: Mapped[str | None]
    citations: Mapped[list[Any]] = mapped_column(JSON)
    votes: Mapped[list[Any]] = mapped_column(JSON)
    disagreement: Mapped[float]
    abstentions: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Members of a panel that gave no grade: judge and reason each; null when there is no panel."""
    contradicted: Mapped[bool] = mapped_column(default=False, server_default=false())
    """The auditor differed by two gates or more; others were then asked too."""
    unjudged: Mapped[str | None]
    late: Mapped[bool] = mapped_column(default=False, server_default=false())
    """It came when the race was over. It is good to train on, and the race is as if it had not come."""
    judged_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Opinion(Table):
    """What one model answered to one piece of evidence: asked once and paid for once, whoever asks again."""

    __tablename__ = "opinion"
    __table_args__ = (UniqueConstraint("evidence_hash", "rubric", "model", "prompt"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    evidence_hash: Mapped[str]
    rubric: Mapped[str]
    model: Mapped[str]
    prompt: Mapped[str]
    """Version of the prompt that it answered."""
    gates: Mapped[list[Any]] = mapped_column(JSON)
    """Of each gate: passed or not, why, and the span of the reasoning that it quoted."""
    given_at: Mapped[datetime] = mapped_column(server_default=func.now())


class JudgeSpend(Table):
    """What asking judges has cost on one day (UTC), all processes together."""

    __tablename__ = "judge_spend"

    day: Mapped[date] = mapped_column(primary_key=True)
    nanodollars: Mapped[int] = mapped_column(BigInteger)


class Judging(Table):
    """The work on one judgement: who has taken a trace up, how often it was tried, and when to try again."""

    __tablename__ = "judging"
    __table_args__ = (
        Index("ix_judging_waiting", "judge", "rubric", "not_before", postgresql_where=text("waiting")),
    )

    trace_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("trace.id"), primary_key=True)
    judge: Mapped[str] = mapped_column(primary_key=True)
    rubric: Mapped[str] = mapped_column(primary_key=True)
    attempts: Mapped[int]
    """How often it was taken up, by workers that died with it too."""
    waiting: Mapped[bool]
    """Unset when there is an answer, and when there were as many attempts as there may be."""
    not_before: Mapped[datetime]
    claimed_by: Mapped[uuid.UUID | None]
    claimed_until: Mapped[datetime | None]
    """A claim that was not renewed until then is nobody's."""


class Reign(Table):
    """A promotion: from this race on, this submission is champion."""

    __tablename__ = "reign"

    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"), primary_key=True)
    submission_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("submission.id"))
    began_at: Mapped[datetime]


class WeightSetting(Table):
    """Weights sent to the chain for a race, and what the chain said when read back."""

    __tablename__ = "weight_setting"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"))
    netuid: Mapped[int]
    sent: Mapped[dict[str, Any]]
    """u16 weights by uid."""
    read_back: Mapped[dict[str, Any] | None]
    confirmed: Mapped[bool]
    block_hash: Mapped[str | None]
    error: Mapped[str | None]
    set_at: Mapped[datetime] = mapped_column(server_default=func.now())


class RequestNonce(Table):
    """A signed request that was already used, so that it cannot be replayed."""

    __tablename__ = "request_nonce"

    sender: Mapped[str] = mapped_column(primary_key=True)
    nonce: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)


class Exposure(Table):
    """A leak cluster that was shown to agents in a race."""

    __tablename__ = "exposure"

    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"), primary_key=True)
    cluster_id: Mapped[str] = mapped_column(primary_key=True)


class AuditEntry(Table):
    """What an operator did, and why. Rows are only ever added."""

    __tablename__ = "audit_entry"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime]
    operator: Mapped[str]
    """The hotkey that signed the request."""
    action: Mapped[str]
    """pause, resume, void or rejudge."""
    race_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("race.id"))
    reason: Mapped[str]
    effect: Mapped[dict[str, Any]]
    """What it changed: the state before, say, or how many traces go back to the judge."""


class Collection(Table):
    """One attempt to collect a miner's source from its node, and how it ended: for the miner to see."""

    __tablename__ = "collection"
    __table_args__ = (Index("ix_collection_hotkey", "hotkey", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    hotkey: Mapped[str]
    source_sha256: Mapped[str]
    """What the hotkey had committed to."""
    at: Mapped[datetime]
    code: Mapped[str]
    """`collected`, or the stable code of why not."""
    detail: Mapped[str]
    final: Mapped[bool]
    """Asking again for the same source would change nothing."""
    submission_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("submission.id"))


class SignedResult(Table):
    """What a validator says of a race, signed by its hotkey: our own, and what others that were asked said.

    A race that was decided with others is decided by these rows, and can be decided again from them.
    """

    __tablename__ = "signed_result"

    race_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("race.id"), primary_key=True)
    hotkey: Mapped[str] = mapped_column(primary_key=True)
    own: Mapped[bool]
    stake: Mapped[int] = mapped_column(BigInteger)
    """In the smallest unit of the subnet's alpha, when the race was decided."""
    body: Mapped[bytes | None]
    """The canonical bytes that were signed; null when there was no answer."""
    signature: Mapped[str | None]
    """Hex."""
    left_out: Mapped[str | None]
    """Why it was not counted; null when it was, or is to be."""
    at: Mapped[datetime]


class WorldPlan(Table):
    """How the validator's world is made, for workers elsewhere that must make the same one. One row.

    As secret as the answers beside it: who knows the seed knows the pool.
    """

    __tablename__ = "world_plan"

    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    plan: Mapped[dict[str, Any]]
