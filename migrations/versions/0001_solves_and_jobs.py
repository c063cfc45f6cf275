"""Solves, jobs, their tags and log lines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

REUSABLE = "reusable AND state IN ('queued', 'running', 'succeeded', 'infeasible')"


def upgrade() -> None:
    op.create_table(
        "solves",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("engine", sa.String(32), nullable=False),
        sa.Column("solver_version", sa.String(32), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("operations", sa.BigInteger(), nullable=False),
        sa.Column("time_limit_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("reusable", sa.Boolean(), nullable=False),
        sa.Column("stop_requested", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(255), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("dispatched_at", sa.BigInteger(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("spent_ms", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(64), nullable=True),
        sa.Column("progress_at", sa.BigInteger(), nullable=True),
        sa.Column("best_objective_ns", sa.BigInteger(), nullable=True),
        sa.Column("lower_bound_ns", sa.BigInteger(), nullable=True),
        sa.Column("proven_optimal", sa.Boolean(), nullable=False),
        sa.Column("incumbent", sa.Text(), nullable=True),
        sa.Column("started_from", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_solves"),
        _check(
            "solves",
            "state",
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'infeasible')",
        ),
        _check("solves", "lease_while_running", "(state = 'running') = (lease_until IS NOT NULL)"),
        _check(
            "solves",
            "finished_when_over",
            "(state IN ('succeeded', 'failed', 'cancelled', 'infeasible'))"
            " = (finished_at IS NOT NULL)",
        ),
        _check("solves", "queued_is_not_stopping", "NOT (state = 'queued' AND stop_requested)"),
        _check(
            "solves",
            "answer_has_result",
            "state NOT IN ('succeeded', 'infeasible') OR result IS NOT NULL",
        ),
        _check("solves", "failure_has_error", "(state = 'failed') = (error IS NOT NULL)"),
        _check(
            "solves",
            "counters",
            "attempt >= 0 AND crashes >= 0 AND losses >= 0 AND spent_ms >= 0",
        ),
        _check("solves", "priority", "priority BETWEEN 0 AND 9"),
    )
    op.create_index(
        "uq_solves_reusable",
        "solves",
        ["spec_hash", "engine"],
        unique=True,
        sqlite_where=sa.text(REUSABLE),
        postgresql_where=sa.text(REUSABLE),
    )
    op.create_index("ix_solves_queue", "solves", ["state", "priority", "created_at", "id"])
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("solve_id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("cache", sa.String(8), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("cancelled_at", sa.BigInteger(), nullable=True),
        sa.Column("stops_solve", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["solve_id"], ["solves.id"], name="fk_jobs_solve_id"),
        _check("jobs", "cache", "cache IN ('miss', 'joined', 'hit')"),
        _check("jobs", "priority", "priority BETWEEN 0 AND 9"),
        _check("jobs", "stop_means_cancelled", "NOT stops_solve OR cancelled_at IS NOT NULL"),
    )
    op.create_index("ix_jobs_solve_id", "jobs", ["solve_id"])
    op.create_index("ix_jobs_newest", "jobs", ["tenant", "created_at", "id"])
    op.create_table(
        "job_tags",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("tag", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "tag", name="pk_job_tags"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_tags_job_id"),
    )
    op.create_index("ix_job_tags_tag", "job_tags", ["tag", "job_id"])
    op.create_table(
        "solve_log_lines",
        sa.Column("solve_id", sa.String(36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("solve_id", "seq", name="pk_solve_log_lines"),
        sa.ForeignKeyConstraint(["solve_id"], ["solves.id"], name="fk_solve_log_lines_solve_id"),
    )


def downgrade() -> None:
    for table in ("solve_log_lines", "job_tags", "jobs", "solves"):
        op.drop_table(table)


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))
