"""Which argument proves the lower bound that a solver has reported."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("solves", sa.Column("bound_name", sa.String(64), nullable=True))


def downgrade() -> None:
    op.drop_column("solves", "bound_name")
