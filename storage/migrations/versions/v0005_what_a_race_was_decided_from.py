"""What a race was decided from: the suites it was drawn among, and which answers came late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("race", sa.Column("clustered_with", postgresql.JSONB(none_as_null=True), nullable=True))
    op.add_column("judged", sa.Column("late", sa.Boolean(), server_default=sa.text("false"), nullable=False))


def downgrade() -> None:
    """Undo it."""
    op.drop_column("judged", "late")
    op.drop_column("race", "clustered_with")
