"""Tenants and their keys, queues, events of a solve, webhooks, batches, idempotency, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

REUSABLE = "reusable AND state IN ('queued', 'running', 'succeeded', 'infeasible')"
NEW_TABLES = (
    "webhook_attempts",
    "webhooks",
    "idempotency_keys",
    "batch_jobs",
    "batches",
    "audit_entries",
    "api_keys",
    "tenants",
    "solve_events",
)


def upgrade() -> None:
    _extend_solves()
    _create_solve_events()
    _create_tenants()
    _create_batches()
    _create_webhooks()


def downgrade() -> None:
    for table in NEW_TABLES:
        op.drop_table(table)
    op.drop_index("uq_solves_reusable", "solves")
    op.drop_index("ix_jobs_oldest", "jobs")
    for index in ("ix_solves_asked", "ix_solves_finished", "ix_solves_tenant"):
        op.drop_index(index, "solves")
    _retire_doubles()
    for column in ("asked_at", "queue", "scope", "tenant"):
        op.drop_column("solves", column)
    _create_reusable_index(["spec_hash", "engine"])


def _extend_solves() -> None:
    op.add_column(
        "solves", sa.Column("tenant", sa.String(64), nullable=False, server_default="default")
    )
    op.add_column("solves", sa.Column("scope", sa.String(64), nullable=False, server_default=""))
    # In words, since SQLite takes a check of an existing table only together with its column.
    op.execute(
        "ALTER TABLE solves ADD COLUMN queue VARCHAR(16) DEFAULT 'short' NOT NULL "
        "CONSTRAINT ck_solves_queue CHECK (queue IN ('short', 'long'))"
    )
    op.add_column(
        "solves", sa.Column("asked_at", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.execute("UPDATE solves SET asked_at = coalesce(finished_at, created_at)")
    op.drop_index("uq_solves_reusable", "solves")
    _create_reusable_index(["spec_hash", "engine", "scope"])
    op.create_index(
        "ix_solves_tenant", "solves", ["tenant", "state", "priority", "created_at", "id"]
    )
    op.create_index("ix_solves_finished", "solves", ["finished_at", "id"])
    op.create_index("ix_solves_asked", "solves", ["asked_at", "state", "id"])
    op.create_index("ix_jobs_oldest", "jobs", ["created_at", "id"])


def _create_reusable_index(columns: list[str]) -> None:
    op.create_index(
        "uq_solves_reusable",
        "solves",
        columns,
        unique=True,
        sqlite_where=sa.text(REUSABLE),
        postgresql_where=sa.text(REUSABLE),
    )


def _retire_doubles() -> None:
    """Without scopes, only one solve of a spec and an engine may answer: the oldest."""
    op.execute(
        f"UPDATE solves SET reusable = false WHERE {REUSABLE} AND EXISTS ("
        f"SELECT 1 FROM solves AS older WHERE older.{REUSABLE.replace('state', 'older.state')}"
        " AND older.spec_hash = solves.spec_hash AND older.engine = solves.engine"
        " AND (older.created_at < solves.created_at"
        " OR (older.created_at = solves.created_at AND older.id < solves.id)))"
    )


def _create_solve_events() -> None:
    op.create_table(
        "solve_events",
        sa.Column("solve_id", sa.String(36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(64), nullable=True),
        sa.Column("spent_ms", sa.BigInteger(), nullable=False),
        sa.Column("best_objective", sa.BigInteger(), nullable=True),
        sa.Column("lower_bound", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.String(200), nullable=True),
        sa.PrimaryKeyConstraint("solve_id", "seq", name="pk_solve_events"),
        sa.ForeignKeyConstraint(["solve_id"], ["solves.id"], name="fk_solve_events_solve_id"),
    )


def _create_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("shares_answers", sa.Boolean(), nullable=False),
        sa.Column("max_queued", sa.Integer(), nullable=True),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "audit_entries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(200), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
    )
    op.create_index("ix_audit_entries_newest", "audit_entries", ["tenant", "at", "id"])


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_index("ix_batches_newest", "batches", ["tenant", "created_at", "id"])
    op.create_table(
        "batch_jobs",
        sa.Column("batch_id", sa.String(36), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "position", name="pk_batch_jobs"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_batch_jobs_batch_id"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_batch_jobs_job_id"),
    )
    op.create_index("ix_batch_jobs_job_id", "batch_jobs", ["job_id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("request_hash", sa.String(64), nullable=False),
        sa.Column("made_id", sa.String(36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency_keys"),
    )


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(300), nullable=False),
        sa.Column("secret", sa.String(200), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_webhooks_job_id"),
        sa.CheckConstraint(
            "state IN ('waiting', 'pending', 'delivered', 'failed')",
            name=op.f("ck_webhooks_state"),
        ),
    )
    op.create_index("ix_webhooks_job_id", "webhooks", ["job_id"])
    op.create_index("ix_webhooks_due", "webhooks", ["state", "not_before"])
    op.create_table(
        "webhook_attempts",
        sa.Column("webhook_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(200), nullable=True),
        sa.PrimaryKeyConstraint("webhook_id", "number", name="pk_webhook_attempts"),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_webhook_attempts_webhook_id"
        ),
    )
