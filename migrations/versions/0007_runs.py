"""Training runs: telemetry, the plans that follow it, who has acknowledged them, and what they say
of the cost model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

NEW_TABLES = (
    "calibrations",
    "run_events",
    "run_telemetry",
    "run_acks",
    "run_versions",
    "run_documents",
    "runs",
)


def upgrade() -> None:
    _create_runs()
    _create_plans()
    op.create_table(
        "run_telemetry",
        _run_id(),
        sa.Column("iteration", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("measures", sa.Text(), nullable=False),
        _of_a_run("run_telemetry"),
        sa.PrimaryKeyConstraint("run_id", "iteration", "stage", name="pk_run_telemetry"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_events",
        _run_id(),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("iteration", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        _of_a_run("run_events"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_run_events"),
    )
    op.create_table(
        "calibrations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("gpu", sa.String(100), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
        sa.UniqueConstraint("tenant", "gpu", "version", name="uq_calibrations_tenant_gpu_version"),
    )


def downgrade() -> None:
    for table in NEW_TABLES:
        op.drop_table(table)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.Column("model", sa.String(100), nullable=True),
        sa.Column("stages", sa.Integer(), nullable=False),
        sa.Column("ranks", sa.Integer(), nullable=False),
        sa.Column("kept_iterations", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("news", sa.BigInteger(), nullable=False),
        sa.Column("looked", sa.BigInteger(), nullable=False),
        sa.Column("look_after", sa.BigInteger(), nullable=False),
        sa.Column("keeper", sa.String(64), nullable=True),
        sa.Column("newest_iteration", sa.BigInteger(), nullable=True),
        sa.Column("changed_from", sa.BigInteger(), nullable=True),
        sa.Column("telemetry_at", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.String(36), nullable=True),
        sa.Column("newest_version", sa.Integer(), nullable=True),
        sa.Column("newest_state", sa.String(16), nullable=True),
        sa.Column("apply_at_iteration", sa.BigInteger(), nullable=True),
        sa.Column("running_version", sa.Integer(), nullable=True),
        sa.Column("predicted_gain", sa.Float(), nullable=True),
        sa.Column("measured_gain", sa.Float(), nullable=True),
        sa.Column("plan_changed_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('active', 'stopped')", name="ck_runs_state"),
        sa.CheckConstraint(
            "(state = 'stopped') = (stopped_at IS NOT NULL)", name="ck_runs_stopped"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_newest", "runs", ["tenant", "created_at", "id"])
    op.create_index("ix_runs_due", "runs", ["state", "look_after"])


def _create_plans() -> None:
    op.create_table(
        "run_documents",
        _run_id(),
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        _of_a_run("run_documents"),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_run_documents"),
    )
    op.create_table(
        "run_versions",
        _run_id(),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at_iteration", sa.BigInteger(), nullable=True),
        sa.Column("apply_at_iteration", sa.BigInteger(), nullable=True),
        sa.Column("needs_restart", sa.Boolean(), nullable=False),
        sa.Column("copy_of", sa.Integer(), nullable=True),
        sa.Column("predicted_gain", sa.Float(), nullable=True),
        sa.Column("gain_low", sa.Float(), nullable=True),
        sa.Column("measured_gain", sa.Float(), nullable=True),
        sa.Column("makespan_ns", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.String(36), nullable=True),
        sa.Column("document", sa.Text(), nullable=True),
        _of_a_run("run_versions"),
        sa.PrimaryKeyConstraint("run_id", "version", name="pk_run_versions"),
    )
    op.create_table(
        "run_acks",
        _run_id(),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("iteration", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        _of_a_run("run_acks"),
        sa.PrimaryKeyConstraint("run_id", "version", "rank", name="pk_run_acks"),
    )


def _run_id() -> sa.Column[str]:
    return sa.Column("run_id", sa.String(36), nullable=False)


def _of_a_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=f"fk_{table}_run_id")
