"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "request_nonce",
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("nonce", sa.String(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("sender", "nonce", name=op.f("pk_request_nonce")),
    )
    op.create_index(op.f("ix_request_nonce_seen_at"), "request_nonce", ["seen_at"], unique=False)
    op.create_table(
        "submission",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("source_sha256", sa.String(), nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("commitment_block", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("refusal", sa.String(), nullable=True),
        sa.Column(
            "submitted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission")),
        sa.UniqueConstraint("hotkey", "source_sha256", name=op.f("uq_submission_hotkey")),
    )
    op.create_table(
        "suite",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("catalog_id", sa.String(), nullable=False),
        sa.Column("scorer", sa.String(), nullable=False),
        sa.Column("root", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suite")),
    )
    op.create_table(
        "race",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("rules", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("rules_hash", sa.String(), nullable=False),
        sa.Column("public_suite_id", sa.String(), nullable=False),
        sa.Column("pool_suite_id", sa.String(), nullable=False),
        sa.Column("champion_id", sa.Uuid(), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("boundary_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("draw_block", sa.BigInteger(), nullable=True),
        sa.Column("draw_block_hash", sa.String(), nullable=True),
        sa.Column("drawn", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("settlement", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("void_reason", sa.String(), nullable=True),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["champion_id"], ["submission.id"], name=op.f("fk_race_champion_id_submission")
        ),
        sa.ForeignKeyConstraint(["pool_suite_id"], ["suite.id"], name=op.f("fk_race_pool_suite_id_suite")),
        sa.ForeignKeyConstraint(
            ["public_suite_id"], ["suite.id"], name=op.f("fk_race_public_suite_id_suite")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_race")),
        sa.UniqueConstraint("number", name=op.f("uq_race_number")),
    )
    op.create_table(
        "suite_problem",
        sa.Column("suite_id", sa.String(), nullable=False),
        sa.Column("problem_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("category", sa.String(), nullable=False),
        sa.Column("cluster_id", sa.String(), nullable=False),
        sa.Column("public", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("answer", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("leak_keys", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(["suite_id"], ["suite.id"], name=op.f("fk_suite_problem_suite_id_suite")),
        sa.PrimaryKeyConstraint("suite_id", "problem_id", name=op.f("pk_suite_problem")),
    )
    op.create_table(
        "entrant",
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("submission_id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.String(), nullable=True),
        sa.Column("qualifying_score", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_entrant_race_id_race")),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_entrant_submission_id_submission")
        ),
        sa.PrimaryKeyConstraint("race_id", "submission_id", name=op.f("pk_entrant")),
    )
    op.create_table(
        "episode",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("submission_id", sa.Uuid(), nullable=False),
        sa.Column("suite_id", sa.String(), nullable=False),
        sa.Column("problem_id", sa.String(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("leased_by", sa.String(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_episode_race_id_race")),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_episode_submission_id_submission")
        ),
        sa.ForeignKeyConstraint(["suite_id"], ["suite.id"], name=op.f("fk_episode_suite_id_suite")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_episode")),
        sa.UniqueConstraint(
            "race_id", "phase", "submission_id", "problem_id", "repeat", name=op.f("uq_episode_race_id")
        ),
    )
    op.create_index("ix_episode_queue", "episode", ["state", "not_before"], unique=False)
    op.create_table(
        "exposure",
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("cluster_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_exposure_race_id_race")),
        sa.PrimaryKeyConstraint("race_id", "cluster_id", name=op.f("pk_exposure")),
    )
    op.create_table(
        "reign",
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("submission_id", sa.Uuid(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_reign_race_id_race")),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_reign_submission_id_submission")
        ),
        sa.PrimaryKeyConstraint("race_id", name=op.f("pk_reign")),
    )
    op.create_table(
        "weight_setting",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("netuid", sa.Integer(), nullable=False),
        sa.Column("sent", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("read_back", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("block_hash", sa.String(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("set_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_weight_setting_race_id_race")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_weight_setting")),
    )
    op.create_table(
        "trace",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("episode_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("chain_head", sa.String(), nullable=False),
        sa.Column("trajectory", sa.JSON(), nullable=False),
        sa.Column("model_emitted", sa.Integer(), nullable=False),
        sa.Column("scripted", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["episode_id"], ["episode.id"], name=op.f("fk_trace_episode_id_episode")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trace")),
        sa.UniqueConstraint("episode_id", "attempt", name=op.f("uq_trace_episode_id")),
    )
    op.create_index("ix_trace_recorded", "trace", ["recorded_at", "id"], unique=False)
    op.create_table(
        "judged",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("trace_id", sa.Uuid(), nullable=False),
        sa.Column("judge", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("grade", sa.Double(), nullable=True),
        sa.Column("gate", sa.String(), nullable=True),
        sa.Column("rationale", sa.String(), nullable=True),
        sa.Column("citations", sa.JSON(), nullable=False),
        sa.Column("votes", sa.JSON(), nullable=False),
        sa.Column("disagreement", sa.Double(), nullable=False),
        sa.Column("unjudged", sa.String(), nullable=True),
        sa.Column("judged_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["trace_id"], ["trace.id"], name=op.f("fk_judged_trace_id_trace")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judged")),
        sa.UniqueConstraint("trace_id", "judge", "rubric", name=op.f("uq_judged_trace_id")),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("judged")
    op.drop_index("ix_trace_recorded", table_name="trace")
    op.drop_table("trace")
    op.drop_table("weight_setting")
    op.drop_table("reign")
    op.drop_table("exposure")
    op.drop_index("ix_episode_queue", table_name="episode")
    op.drop_table("episode")
    op.drop_table("entrant")
    op.drop_table("suite_problem")
    op.drop_table("race")
    op.drop_table("suite")
    op.drop_table("submission")
    op.drop_index(op.f("ix_request_nonce_seen_at"), table_name="request_nonce")
    op.drop_table("request_nonce")
