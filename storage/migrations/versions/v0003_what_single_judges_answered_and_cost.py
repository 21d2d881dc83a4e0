"""What single judges answered and cost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "judge_spend",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("nanodollars", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_judge_spend")),
    )
    op.create_table(
        "opinion",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("evidence_hash", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("prompt", sa.String(), nullable=False),
        sa.Column("gates", sa.JSON(), nullable=False),
        sa.Column("given_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_opinion")),
        sa.UniqueConstraint(
            "evidence_hash", "rubric", "model", "prompt", name=op.f("uq_opinion_evidence_hash")
        ),
    )
    op.add_column("judged", sa.Column("abstentions", sa.JSON(), nullable=True))
    op.add_column(
        "judged", sa.Column("contradicted", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_column("judged", "contradicted")
    op.drop_column("judged", "abstentions")
    op.drop_table("opinion")
    op.drop_table("judge_spend")
