"""Jobs: adding, reading and cancelling them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, and_, case, func, select, tuple_
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import Job, JobTag, Solve, SolveState
from app.repositories.solves import queue_position_query

STOPPING: ColumnElement[bool] = and_(Job.stops_solve, Solve.state == SolveState.RUNNING)
JOB_STATE: ColumnElement[str] = case(
    (and_(Job.cancelled_at.is_not(None), ~STOPPING), SolveState.CANCELLED.value),
    else_=Solve.state,
)


@dataclass(frozen=True)
class JobRow:
    """A job with its solve and what follows from both."""

    job: Job
    solve: Solve
    state: SolveState
    stopping: bool
    queue_position: int | None
    now: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class JobFilter:
    """What a listing is narrowed to; `before` is the (created_at, id) that the page follows."""

    state: SolveState | None = None
    name: str | None = None
    tag: str | None = None
    kind: str | None = None
    before: tuple[int, str] | None = None


class JobRepository:
    """Queries and writes of the tables `jobs` and `job_tags`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(
        self,
        *,
        solve: Solve,
        tenant: str,
        name: str | None,
        tags: Iterable[str],
        priority: int,
        cache: str,
    ) -> Job:
        """A new job that waits for this solve."""
        job = Job(
            id=str(uuid.uuid4()),
            solve_id=solve.id,
            tenant=tenant,
            name=name,
            priority=priority,
            cache=cache,
        )
        self._session.add(job)
        self._session.flush()
        self._session.add_all(JobTag(job_id=job.id, tag=tag) for tag in tags)
        return job

    def get(self, tenant: str, job_id: str) -> Job | None:
        """The job alone, if it is this tenant's."""
        statement = select(Job).where(Job.id == job_id, Job.tenant == tenant)
        return self._session.scalars(statement).one_or_none()

    def view(self, tenant: str, job_id: str) -> JobRow | None:
        """The job with its solve, if it is this tenant's."""
        rows = self._rows(tenant, JobFilter(), 1, Job.id == job_id)
        return rows[0] if rows else None

    def page(self, tenant: str, wanted: JobFilter, limit: int) -> list[JobRow]:
        """This tenant's jobs that match, newest first."""
        return self._rows(tenant, wanted, limit)

    def cancel(self, job: Job, *, stops_solve: bool) -> None:
        """Detach the job from its solve."""
        job.cancelled_at = self._session.scalar(select(clock_ms()))
        job.stops_solve = stops_solve

    def waiting(self, solve_id: str) -> int:
        """How many jobs are still attached to a solve."""
        statement = select(func.count()).where(Job.solve_id == solve_id, Job.cancelled_at.is_(None))
        return self._session.scalars(statement).one()

    def first_of(self, solve_id: str) -> str | None:
        """The job for which a solve was made."""
        statement = (
            select(Job.id).where(Job.solve_id == solve_id).order_by(Job.created_at, Job.id).limit(1)
        )
        return self._session.scalars(statement).one_or_none()

    def _rows(
        self, tenant: str, wanted: JobFilter, limit: int, *conditions: ColumnElement[bool]
    ) -> list[JobRow]:
        position = case(
            (Solve.state == SolveState.QUEUED, queue_position_query().scalar_subquery()),
            else_=None,
        )
        statement = (
            select(Job, Solve, JOB_STATE, STOPPING, position, clock_ms())
            .join(Solve, Job.solve_id == Solve.id)
            .where(Job.tenant == tenant, *conditions, *_conditions(wanted))
            .order_by(Job.created_at.desc(), Job.id.desc())
            .limit(limit)
        )
        rows = self._session.execute(statement).all()
        tags = self._tags([row[0].id for row in rows])
        return [_job_row(row, tags.get(row[0].id, [])) for row in rows]

    def _tags(self, job_ids: Sequence[str]) -> dict[str, list[str]]:
        tags: dict[str, list[str]] = {}
        statement = select(JobTag).where(JobTag.job_id.in_(job_ids)).order_by(JobTag.tag)
        for entry in self._session.scalars(statement):
            tags.setdefault(entry.job_id, []).append(entry.tag)
        return tags


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.state is not None:
        conditions.append(JOB_STATE.in_([wanted.state.value]))
    if wanted.name is not None:
        conditions.append(Job.name == wanted.name)
    if wanted.kind is not None:
        conditions.append(Solve.kind == wanted.kind)
    if wanted.tag is not None:
        tagged = select(JobTag.job_id).where(JobTag.tag == wanted.tag)
        conditions.append(Job.id.in_(tagged))
    if wanted.before is not None:
        conditions.append(tuple_(Job.created_at, Job.id) < wanted.before)
    return conditions


def _job_row(row: Row[Job, Solve, str, bool, int | None, int], tags: list[str]) -> JobRow:
    job, solve, state, stopping, position, now = row
    # A detached job waits in no queue, whatever its solve does.
    waiting = job.cancelled_at is None
    return JobRow(
        job=job,
        solve=solve,
        state=SolveState(state),
        stopping=bool(stopping),
        queue_position=position if waiting else None,
        now=now,
        tags=tuple(tags),
    )
