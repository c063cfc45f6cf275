"""Which jobs of some tenants may have changed lately, however many they have had."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    select,
    union,
)

from app.database import clock_ms
from app.models import Job, Solve, SolveState
from app.repositories.job_rows import JOB_STATE, STOPPING


class ChangeMark(NamedTuple):
    """A job, and what differs as soon as it has changed."""

    id: str
    tenant: str
    state: str
    stopping: bool
    attempts: int
    phase: str | None
    best_objective: int | None
    lower_bound: int | None
    proven_optimal: bool


_NOW = select(clock_ms())
# A number rather than a reading of the clock: PostgreSQL uses an index only where it can tell that
# few rows are that new.
_SINCE: BindParameter[int] = bindparam("since")
_TENANTS: BindParameter[list[str]] = bindparam("tenants", expanding=True)
# An expression, which no index has: no plan begins with all jobs that a tenant has ever had.
_OF_TENANTS: ColumnElement[bool] = Job.tenant.concat("").in_(_TENANTS)
_OF_SOLVES = select(Job.id).join_from(Solve, Job, Job.solve_id == Solve.id).where(_OF_TENANTS)
# For the job nothing follows, whatever its solve does for others.
_LEFT = and_(Job.cancelled_at.is_not(None), ~Job.stops_solve)
_CANDIDATES = union(
    select(Job.id).where(Job.tenant.in_(_TENANTS), Job.created_at >= _SINCE),
    select(Job.id).where(Job.tenant.in_(_TENANTS), Job.cancelled_at >= _SINCE),
    _OF_SOLVES.where(Solve.state == SolveState.RUNNING, ~_LEFT),
    _OF_SOLVES.where(Solve.finished_at >= _SINCE),
    select(Job.id).where(Job.id.in_(bindparam("job_ids", expanding=True))),
).subquery()
_MARKS = (
    select(
        Job.id,
        Job.tenant,
        JOB_STATE,
        STOPPING,
        Solve.attempt,
        Solve.phase,
        Solve.best_objective,
        Solve.lower_bound,
        Solve.proven_optimal,
    )
    .join_from(Job, Solve, Job.solve_id == Solve.id)
    .where(Job.id.in_(select(_CANDIDATES.c.id)))
)


class ChangeReader:
    """The one query for all streams of all jobs of some tenants."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def marks(
        self, tenants: Collection[str], job_ids: Collection[str], window_ms: int
    ) -> list[ChangeMark]:
        """Of these tenants' jobs that run, or were made, left or over within the window; and of
        the jobs with these ids."""
        given: dict[str, Any] = {
            "tenants": list(tenants),
            "job_ids": list(job_ids),
            "since": self._connection.scalars(_NOW).one() - window_ms,
        }
        return [ChangeMark(*row) for row in self._connection.execute(_MARKS, given)]
