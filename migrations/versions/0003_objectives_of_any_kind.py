"""Objective and bound in the unit of the solve's kind: bytes of a sharding plan, not ns alone."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NEW_NAMES = {"best_objective_ns": "best_objective", "lower_bound_ns": "lower_bound"}


def upgrade() -> None:
    for old, new in NEW_NAMES.items():
        op.alter_column("solves", old, new_column_name=new)


def downgrade() -> None:
    for old, new in NEW_NAMES.items():
        op.alter_column("solves", new, new_column_name=old)
