"""What was posted for each job, in a few words what it plans, and an index of cancelled jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

CANCELLED = "cancelled_at IS NOT NULL"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("model", sa.String(100), nullable=True))
    # The last column, so that SQLite reads the others without reading past a long text.
    op.add_column("jobs", sa.Column("request", sa.Text(), nullable=True))
    op.create_index(
        "ix_jobs_cancelled",
        "jobs",
        ["tenant", "cancelled_at"],
        sqlite_where=sa.text(CANCELLED),
        postgresql_where=sa.text(CANCELLED),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_cancelled", "jobs")
    op.drop_column("jobs", "request")
    op.drop_column("jobs", "model")
