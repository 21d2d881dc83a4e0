"""The traces that wait for a judge, in their order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_index(
        "ix_judging_waiting",
        "judging",
        ["judge", "rubric", "not_before"],
        unique=False,
        postgresql_where=sa.text("waiting"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_index("ix_judging_waiting", table_name="judging", postgresql_where=sa.text("waiting"))
