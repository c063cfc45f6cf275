"""Requests, the work that they wait for, and what the work reports on its way.

A `Solve` is the work and a `Job` one request for it; many jobs may wait for one solve.
"""

from __future__ import annotations

import math
from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import clock_ms
from app.models.base import (
    DEFAULT_PRIORITY,
    DEFAULT_TENANT,
    HIGHEST_PRIORITY,
    LONG,
    LOWEST_PRIORITY,
    SHARED,
    SHORT,
    Base,
    listed,
)


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

REUSABLE_CONDITION = f"reusable AND state IN ({listed(IN_FLIGHT + ANSWERED)})"
CANCELLED_CONDITION = "cancelled_at IS NOT NULL"

SOLVE_CHECKS = {
    "state": f"state IN ({listed(tuple(SolveState))})",
    "lease_while_running": "(state = 'running') = (lease_until IS NOT NULL)",
    "finished_when_over": f"(state IN ({listed(OVER)})) = (finished_at IS NOT NULL)",
    "queued_is_not_stopping": "NOT (state = 'queued' AND stop_requested)",
    "answer_has_result": f"state NOT IN ({listed(ANSWERED)}) OR result IS NOT NULL",
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
