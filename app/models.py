"""The tables. Instants (`*_at`, `*_until`) are whole milliseconds on the database's clock.

A `Solve` is the work and a `Job` one request for it; many jobs may wait for one solve. The rows
are the truth: whatever a queue or a process believes, only these states count.
"""

from __future__ import annotations

import math
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.database import clock_ms

SCHEMA_REVISION = "0006"
"""The migration that these tables come from. Numbers of revisions grow."""
DEFAULT_TENANT = "default"
DEFAULT_PRIORITY = 5
SHARED = ""
"""The scope of solves whose answers all tenants share that have not opted out."""
SHORT, LONG = "short", "long"
"""The queues, by expected cost: workers take `long` only where they are told to."""
PIPELINE, SHARDING, TRAINING = "pipeline", "sharding", "training"
"""The kinds of a solve: a pipeline schedule, whose objective is in ns; a sharding plan, whose
objective is in bytes; and a training plan, whose objective is the predicted step time in ns."""
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 9


class SolveState(StrEnum):
    """queued -> running -> succeeded | failed | cancelled | infeasible; running -> queued when a
    worker is lost, its solver crashed or it shuts down; queued -> cancelled | failed."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INFEASIBLE = "infeasible"

    @property
    def is_over(self) -> bool:
        """Whether nothing follows."""
        return self not in (SolveState.QUEUED, SolveState.RUNNING)


ANSWERED = (SolveState.SUCCEEDED, SolveState.INFEASIBLE)
IN_FLIGHT = (SolveState.QUEUED, SolveState.RUNNING)
OVER = tuple(state for state in SolveState if state.is_over)


def _listed(states: tuple[StrEnum, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


REUSABLE_CONDITION = f"reusable AND state IN ({_listed(IN_FLIGHT + ANSWERED)})"
CANCELLED_CONDITION = "cancelled_at IS NOT NULL"

SOLVE_CHECKS = {
    "state": f"state IN ({_listed(tuple(SolveState))})",
    "lease_while_running": "(state = 'running') = (lease_until IS NOT NULL)",
    "finished_when_over": f"(state IN ({_listed(OVER)})) = (finished_at IS NOT NULL)",
    "queued_is_not_stopping": "NOT (state = 'queued' AND stop_requested)",
    "answer_has_result": f"state NOT IN ({_listed(ANSWERED)}) OR result IS NOT NULL",
    "failure_has_error": "(state = 'failed') = (error IS NOT NULL)",
    "counters": "attempt >= 0 AND crashes >= 0 AND losses >= 0 AND spent_ms >= 0",
    "priority": f"priority BETWEEN {LOWEST_PRIORITY} AND {HIGHEST_PRIORITY}",
    "queue": f"queue IN ('{SHORT}', '{LONG}')",
}
JOB_CHECKS = {
    "cache": "cache IN ('miss', 'joined', 'hit')",
    "priority": f"priority BETWEEN {LOWEST_PRIORITY} AND {HIGHEST_PRIORITY}",
    "stop_means_cancelled": "NOT stops_solve OR cancelled_at IS NOT NULL",
}


class Base(DeclarativeBase):
    """Base of all tables; constraints have names, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


LARGEST_INTEGER = 2**63 - 1


def rounded_up(objective: float) -> int:
    """An objective as its column holds it. One beyond every column is the largest there is: what a
    database refuses would be written again for ever."""
    return LARGEST_INTEGER if objective >= LARGEST_INTEGER else math.ceil(objective)


def rounded_down(bound: float) -> int:
    """A lower bound as its column holds it."""
    return LARGEST_INTEGER if bound >= LARGEST_INTEGER else math.floor(bound)


class Solve(Base):
    """One piece of work, identified by the hash of its canonical spec and its engine."""

    __tablename__ = "solves"
    __table_args__ = (
        *(CheckConstraint(sql, name=name) for name, sql in SOLVE_CHECKS.items()),
        Index(
            "uq_solves_reusable",
            "spec_hash",
            "engine",
            "scope",
            unique=True,
            sqlite_where=text(REUSABLE_CONDITION),
            postgresql_where=text(REUSABLE_CONDITION),
        ),
        Index("ix_solves_queue", "state", "priority", "created_at", "id"),
        # With everything that the place in the queue depends on: the rows have long specs.
        Index("ix_solves_tenant", "tenant", "state", "priority", "created_at", "id"),
        Index("ix_solves_problem_hash", "problem_hash"),
        Index("ix_solves_shape", "shape_hash", "created_at"),
        Index("ix_solves_finished", "finished_at", "id"),
        # With everything that retention asks for, so that it does not read rows with long specs.
        Index("ix_solves_asked", "asked_at", "state", "id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    spec_hash: Mapped[str] = mapped_column(String(64))
    # What is to be solved without its options; null if the planner that stored it cannot be asked.
    problem_hash: Mapped[str | None] = mapped_column(String(64))
    # Plans can be adapted between solves of one shape; the profile (JSON) says how far apart they
    # are. Null where there is no problem, and in rows older than these columns.
    shape_hash: Mapped[str | None] = mapped_column(String(64))
    profile: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    engine: Mapped[str] = mapped_column(String(32))
    solver_version: Mapped[str] = mapped_column(String(32))
    # Whose job it was made for, and whose requests it may answer: `SHARED` or one tenant's.
    tenant: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    scope: Mapped[str] = mapped_column(String(64), default=SHARED)
    queue: Mapped[str] = mapped_column(String(16), default=SHORT)
    spec: Mapped[str] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    operations: Mapped[int] = mapped_column(BigInteger)
    time_limit_ms: Mapped[int] = mapped_column(BigInteger)

    state: Mapped[str] = mapped_column(String(16), default=SolveState.QUEUED)
    priority: Mapped[int] = mapped_column(Integer, default=DEFAULT_PRIORITY)
    # Whether a later request may be answered by, or join, this solve.
    reusable: Mapped[bool] = mapped_column(default=True)
    stop_requested: Mapped[bool] = mapped_column(default=False)

    # `attempt` only fences writes: it grows with every claim. `crashes` and `losses` are counted.
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    crashes: Mapped[int] = mapped_column(Integer, default=0)
    losses: Mapped[int] = mapped_column(Integer, default=0)
    worker: Mapped[str | None] = mapped_column(String(255))
    lease_until: Mapped[int | None] = mapped_column(BigInteger)
    heartbeat_at: Mapped[int | None] = mapped_column(BigInteger)
    # Null = its id still has to be sent to the broker. Not sent before `not_before`.
    dispatched_at: Mapped[int | None] = mapped_column(BigInteger)
    not_before: Mapped[int] = mapped_column(BigInteger, default=0)

    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    started_at: Mapped[int | None] = mapped_column(BigInteger)
    finished_at: Mapped[int | None] = mapped_column(BigInteger)
    # When a request was last answered by it or joined it: answers nobody asks for expire.
    asked_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    # Solver time of earlier attempts and of this one up to its last heartbeat.
    spent_ms: Mapped[int] = mapped_column(BigInteger, default=0)

    phase: Mapped[str | None] = mapped_column(String(64))
    progress_at: Mapped[int | None] = mapped_column(BigInteger)
    # In the unit of its kind: nanoseconds of a schedule or a step, bytes of a sharding plan. An
    # objective is rounded up and a bound down. The bound is proven for the whole request.
    best_objective: Mapped[int | None] = mapped_column(BigInteger)
    lower_bound: Mapped[int | None] = mapped_column(BigInteger)
    # The argument that proves it, as the solver named it when it reported it.
    bound_name: Mapped[str | None] = mapped_column(String(64))
    proven_optimal: Mapped[bool] = mapped_column(default=False)
    # JSON documents. `incumbent` and `started_from` are what a solve can start from: its own best
    # plan, and before there is one a plan of another solve with its `origin`.
    incumbent: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    started_from: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    result: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    error: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)


class Job(Base):
    """One request. Its state is `cancelled` once detached, and that of its solve otherwise."""

    __tablename__ = "jobs"
    __table_args__ = (
        *(CheckConstraint(sql, name=name) for name, sql in JOB_CHECKS.items()),
        Index("ix_jobs_newest", "tenant", "created_at", "id"),
        Index("ix_jobs_oldest", "created_at", "id"),
        # Of the few that are: making a job costs no more.
        Index(
            "ix_jobs_cancelled",
            "tenant",
            "cancelled_at",
            sqlite_where=text(CANCELLED_CONDITION),
            postgresql_where=text(CANCELLED_CONDITION),
        ),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    solve_id: Mapped[str] = mapped_column(ForeignKey("solves.id"), index=True)
    tenant: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    name: Mapped[str | None] = mapped_column(String(200))
    priority: Mapped[int] = mapped_column(Integer, default=DEFAULT_PRIORITY)
    cache: Mapped[str] = mapped_column(String(8))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    cancelled_at: Mapped[int | None] = mapped_column(BigInteger)
    # Its cancellation was the last one, which told the solve to stop.
    stops_solve: Mapped[bool] = mapped_column(default=False)
    # What is planned, in a few words. Like the request, null in rows older than the column.
    model: Mapped[str | None] = mapped_column(String(100))
    # The body that was posted, without its webhook, as JSON. The last column of the table: to read
    # those after a long text, SQLite reads the text too.
    request: Mapped[str | None] = mapped_column(Text, deferred=True, deferred_raiseload=True)


class JobTag(Base):
    """A label that a client put on a job."""

    __tablename__ = "job_tags"
    __table_args__ = (Index("ix_job_tags_tag", "tag", "job_id"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True)


class SolveLogLine(Base):
    """A line of a solve's log. Numbers grow; the oldest lines go where there are too many."""

    __tablename__ = "solve_log_lines"

    solve_id: Mapped[str] = mapped_column(ForeignKey("solves.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    line: Mapped[str] = mapped_column(Text)


class SolveEvent(Base):
    """A step of a solve: a change of state, or a better plan or bound. Numbers grow from 0."""

    __tablename__ = "solve_events"

    solve_id: Mapped[str] = mapped_column(ForeignKey("solves.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    state: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(Integer)
    phase: Mapped[str | None] = mapped_column(String(64))
    spent_ms: Mapped[int] = mapped_column(BigInteger)
    best_objective: Mapped[int | None] = mapped_column(BigInteger)
    lower_bound: Mapped[int | None] = mapped_column(BigInteger)
    # Why a solve went back to the queue, for people.
    detail: Mapped[str | None] = mapped_column(String(200))


class Tenant(Base):
    """What one tenant may do. A tenant without a row has the settings' limits."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    # Whether its requests are answered by, and answer, those of others that share.
    shares_answers: Mapped[bool] = mapped_column(default=True)
    # Null = as the settings say.
    max_queued: Mapped[int | None] = mapped_column(Integer)
    max_running: Mapped[int | None] = mapped_column(Integer)
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class ApiKey(Base):
    """A key of a tenant. Its secret is not stored, only the SHA-256 of it."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64), index=True)
    name: Mapped[str] = mapped_column(String(200))
    secret_hash: Mapped[str] = mapped_column(String(64))
    # Words from `app.callers.Scope`, with spaces between.
    scopes: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    expires_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)
    last_used_at: Mapped[int | None] = mapped_column(BigInteger)


class AuditEntry(Base):
    """Something that a person did and may be asked about: keys, limits, cancels, purges."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index("ix_audit_entries_newest", "tenant", "at", "id"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    tenant: Mapped[str] = mapped_column(String(64))
    # The id of the key, or how else the person came in.
    actor: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    target: Mapped[str | None] = mapped_column(String(200))
    detail: Mapped[str | None] = mapped_column(Text)
    request_id: Mapped[str | None] = mapped_column(String(64))


class Batch(Base):
    """Requests that were posted together to be compared."""

    __tablename__ = "batches"
    __table_args__ = (Index("ix_batches_newest", "tenant", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    name: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class BatchJob(Base):
    """A job of a batch, in the order in which they were posted."""

    __tablename__ = "batch_jobs"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)


class IdempotencyKey(Base):
    """The `Idempotency-Key` of a request that was taken on, and what came of it."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    # Of address and body: the same key with another request is a mistake of the client.
    request_hash: Mapped[str] = mapped_column(String(64))
    # The job or batch that it made.
    made_id: Mapped[str] = mapped_column(String(36))
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())


class DeliveryState(StrEnum):
    """pending -> delivered | failed; `waiting` until the job is over."""

    WAITING = "waiting"
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(Base):
    """An address that is told when a job is over, and how the telling goes."""

    __tablename__ = "webhooks"
    __table_args__ = (
        CheckConstraint(f"state IN ({_listed(tuple(DeliveryState))})", name="state"),
        Index("ix_webhooks_due", "state", "not_before"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    url: Mapped[str] = mapped_column(Text)
    # Its scheme, host and port: few are tried at once of one origin.
    origin: Mapped[str] = mapped_column(String(300))
    # Signs what is sent (HMAC), so it cannot be stored as a hash. Null = the service's own.
    secret: Mapped[str | None] = mapped_column(String(200), deferred=True, deferred_raiseload=True)
    state: Mapped[str] = mapped_column(String(16), default=DeliveryState.WAITING)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    # Not tried before; whoever tries moves it on first, so that two never try at once.
    not_before: Mapped[int] = mapped_column(BigInteger, default=0)
    created_at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    finished_at: Mapped[int | None] = mapped_column(BigInteger)


class WebhookAttempt(Base):
    """One try to deliver: the delivery log."""

    __tablename__ = "webhook_attempts"

    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger, default=clock_ms())
    duration_ms: Mapped[int] = mapped_column(Integer)
    # The status that the receiver answered with, or else why there was none.
    status: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str | None] = mapped_column(String(200))
