"""Whose judgements count in a race, and the work on each judgement."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_JUDGED_BEFORE = """
UPDATE race SET judge = newest.judge, rubric = newest.rubric
FROM (
    SELECT DISTINCT ON (episode.race_id) episode.race_id, judged.judge, judged.rubric
    FROM judged
    JOIN trace ON trace.id = judged.trace_id
    JOIN episode ON episode.id = trace.episode_id
    WHERE judged.grade IS NOT NULL
    ORDER BY episode.race_id, judged.judged_at DESC, judged.id
) AS newest
WHERE newest.race_id = race.id
"""
"""A race that was judged before keeps its judge: the newest that answered is the one that counted."""


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "judging",
        sa.Column("trace_id", sa.Uuid(), nullable=False),
        sa.Column("judge", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Boolean(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_by", sa.Uuid(), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["trace_id"], ["trace.id"], name=op.f("fk_judging_trace_id_trace")),
        sa.PrimaryKeyConstraint("trace_id", "judge", "rubric", name=op.f("pk_judging")),
    )
    op.add_column("race", sa.Column("judge", sa.String(), nullable=True))
    op.add_column("race", sa.Column("rubric", sa.String(), nullable=True))
    op.execute(_JUDGED_BEFORE)


def downgrade() -> None:
    """Undo it."""
    op.drop_column("race", "rubric")
    op.drop_column("race", "judge")
    op.drop_table("judging")
