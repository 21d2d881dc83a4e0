"""What a suite is played and scored by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("suite", sa.Column("environment_version", sa.String(), server_default="", nullable=False))
    op.add_column(
        "suite",
        sa.Column(
            "options",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_column("suite", "options")
    op.drop_column("suite", "environment_version")
