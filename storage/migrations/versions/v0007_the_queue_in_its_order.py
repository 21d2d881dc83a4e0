"""The queue in its order, so that a lease costs as much in a long queue as in a short one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.drop_index("ix_episode_queue", table_name="episode")
    op.create_index(
        "ix_episode_queue", "episode", ["position", "id"], postgresql_where=sa.text("state <> 'done'")
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_index("ix_episode_queue", table_name="episode")
    op.create_index("ix_episode_queue", "episode", ["state", "not_before"])
