"""Copies that are superseded, and refusals that make their hotkey wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Submissions of before have no fingerprints; the next submission takes them."""
    op.create_table(
        "refusal",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("hotkey", sa.String(), nullable=False),
        sa.Column("source_sha256", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusal")),
    )
    op.create_index("ix_refusal_hotkey", "refusal", ["hotkey", "refused_at"], unique=False)
    op.create_table(
        "fingerprint",
        sa.Column("hash", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("submission_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submission.id"],
            name=op.f("fk_fingerprint_submission_id_submission"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("hash", "submission_id", name=op.f("pk_fingerprint")),
    )
    op.create_index(op.f("ix_fingerprint_submission_id"), "fingerprint", ["submission_id"], unique=False)
    op.add_column("submission", sa.Column("superseded_by", sa.Uuid(), nullable=True))
    op.add_column("submission", sa.Column("fingerprint_scheme", sa.String(), nullable=True))
    op.add_column("submission", sa.Column("fingerprint_count", sa.Integer(), nullable=True))
    op.create_index(
        op.f("ix_submission_fingerprint_scheme"), "submission", ["fingerprint_scheme"], unique=False
    )
    op.create_foreign_key(
        op.f("fk_submission_superseded_by_submission"),
        "submission",
        "submission",
        ["superseded_by"],
        ["id"],
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_constraint(op.f("fk_submission_superseded_by_submission"), "submission", type_="foreignkey")
    op.drop_index(op.f("ix_submission_fingerprint_scheme"), table_name="submission")
    op.drop_column("submission", "fingerprint_count")
    op.drop_column("submission", "fingerprint_scheme")
    op.drop_column("submission", "superseded_by")
    op.drop_index(op.f("ix_fingerprint_submission_id"), table_name="fingerprint")
    op.drop_table("fingerprint")
    op.drop_index("ix_refusal_hotkey", table_name="refusal")
    op.drop_table("refusal")
