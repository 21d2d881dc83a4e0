"""How a validator's world is made, for workers that must make the same one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "world_plan",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("plan", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_world_plan")),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("world_plan")
