"""Jobs as rows of their own: adding and cancelling them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Table, func, insert, select
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import Job, JobTag


@dataclass(frozen=True)
class NewJob:
    """A job to be made, and the solve that it waits for."""

    id: str
    solve_id: str
    tenant: str
    name: str | None
    tags: Sequence[str]
    priority: int
    cache: str
    model: str | None
    request: str | None


_INSERT_JOB = insert(cast(Table, Job.__table__))
_INSERT_TAG = insert(cast(Table, JobTag.__table__))


class JobRepository:
    """Queries and writes of the tables `jobs` and `job_tags`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, jobs: Sequence[NewJob]) -> None:
        """New jobs that wait for their solves."""
        # Past the mapper, which costs as much as the insert: every request makes one.
        connection = self._session.connection()
        connection.execute(
            _INSERT_JOB,
            [
                {
                    "id": job.id,
                    "solve_id": job.solve_id,
                    "tenant": job.tenant,
                    "name": job.name,
                    "priority": job.priority,
                    "cache": job.cache,
                    "model": job.model,
                    "request": job.request,
                }
                for job in jobs
            ],
        )
        tags = [{"job_id": job.id, "tag": tag} for job in jobs for tag in job.tags]
        if tags:
            connection.execute(_INSERT_TAG, tags)

    def get(self, tenant: str, job_id: str) -> Job | None:
        """The job alone, if it is this tenant's."""
        statement = select(Job).where(Job.id == job_id, Job.tenant == tenant)
        return self._session.scalars(statement).one_or_none()

    def cancel(self, job: Job, *, stops_solve: bool) -> None:
        """Detach the job from its solve."""
        job.cancelled_at = self._session.scalar(select(clock_ms()))
        job.stops_solve = stops_solve

    def waiting(self, solve_id: str) -> int:
        """How many jobs are still attached to a solve."""
        statement = select(func.count()).where(Job.solve_id == solve_id, Job.cancelled_at.is_(None))
        return self._session.scalars(statement).one()

    def first_of(self, solve_id: str, tenant: str | None = None) -> str | None:
        """The first job of a solve that is left, of one tenant or of any."""
        statement = (
            select(Job.id).where(Job.solve_id == solve_id).order_by(Job.created_at, Job.id).limit(1)
        )
        if tenant is not None:
            statement = statement.where(Job.tenant == tenant)
        return self._session.scalars(statement).one_or_none()
