"""Sources collected from nodes, withdrawals, and signed results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("submission", sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "collection",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("source_sha256", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("submission_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_collection_submission_id_submission")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collection")),
    )
    op.create_index("ix_collection_hotkey", "collection", ["hotkey", "id"], unique=False)
    op.create_table(
        "signed_result",
        sa.Column("race_id", sa.Uuid(), nullable=False),
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.Column("stake", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("signature", sa.String(), nullable=True),
        sa.Column("left_out", sa.String(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["race_id"], ["race.id"], name=op.f("fk_signed_result_race_id_race")),
        sa.PrimaryKeyConstraint("race_id", "hotkey", name=op.f("pk_signed_result")),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("signed_result")
    op.drop_index("ix_collection_hotkey", table_name="collection")
    op.drop_table("collection")
    op.drop_column("submission", "withdrawn_at")
