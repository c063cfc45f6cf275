"""Batches: making, reading and listing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import case, func, insert, select, tuple_
from sqlalchemy.orm import Session

from app.models import OVER, Batch, BatchJob, Job, Solve
from app.repositories.job_rows import JOB_STATE


@dataclass(frozen=True)
class NewBatch:
    """A batch to be made, with its jobs in the order in which they were posted."""

    id: str
    tenant: str
    name: str | None
    job_ids: Sequence[str]


class BatchRow(NamedTuple):
    """A job of a batch, and how far its solve has got. `state` is the job's."""

    position: int
    job_id: str
    name: str | None
    cache: str
    state: str
    kind: str
    engine: str
    best_objective: int | None
    lower_bound: int | None
    proven_optimal: bool


@dataclass(frozen=True)
class BatchCount:
    """A batch, how many jobs it has and how many of them are over."""

    batch: Batch
    jobs: int
    over: int


class BatchRepository:
    """Queries and writes of the tables `batches` and `batch_jobs`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, new: NewBatch) -> None:
        """A new batch of jobs that are there already."""
        batch = {"id": new.id, "tenant": new.tenant, "name": new.name}
        self._session.execute(insert(Batch), [batch])
        self._session.execute(
            insert(BatchJob),
            [
                {"batch_id": new.id, "position": position, "job_id": job_id}
                for position, job_id in enumerate(new.job_ids)
            ],
        )

    def get(self, tenant: str, batch_id: str) -> Batch | None:
        """The batch alone, if it is this tenant's."""
        statement = select(Batch).where(Batch.id == batch_id, Batch.tenant == tenant)
        return self._session.scalars(statement).one_or_none()

    def rows(self, batch_id: str) -> list[BatchRow]:
        """The jobs of a batch in the order in which they were posted."""
        statement = (
            select(
                BatchJob.position,
                Job.id,
                Job.name,
                Job.cache,
                JOB_STATE,
                Solve.kind,
                Solve.engine,
                Solve.best_objective,
                Solve.lower_bound,
                Solve.proven_optimal,
            )
            .join(Job, BatchJob.job_id == Job.id)
            .join(Solve, Job.solve_id == Solve.id)
            .where(BatchJob.batch_id == batch_id)
            .order_by(BatchJob.position)
        )
        return [BatchRow._make(row) for row in self._session.execute(statement)]

    def unfinished(self, batch_id: str) -> Sequence[str]:
        """The jobs of a batch that are not over, in the order of their solves."""
        statement = (
            select(Job.id)
            .join(BatchJob, BatchJob.job_id == Job.id)
            .join(Solve, Job.solve_id == Solve.id)
            .where(BatchJob.batch_id == batch_id, JOB_STATE.not_in(OVER))
            .order_by(Job.solve_id, Job.id)
        )
        return self._session.scalars(statement).all()

    def page(self, tenant: str, before: tuple[int, str] | None, limit: int) -> list[BatchCount]:
        """This tenant's batches, newest first; `before` is the one that the page follows."""
        follows = [] if before is None else [tuple_(Batch.created_at, Batch.id) < before]
        batches = self._session.scalars(
            select(Batch)
            .where(Batch.tenant == tenant, *follows)
            .order_by(Batch.created_at.desc(), Batch.id.desc())
            .limit(limit)
        ).all()
        counts = {
            batch_id: (jobs, over)
            for batch_id, jobs, over in self._session.execute(
                select(
                    BatchJob.batch_id,
                    func.count(),
                    func.sum(case((JOB_STATE.in_(OVER), 1), else_=0)),
                )
                .join(Job, BatchJob.job_id == Job.id)
                .join(Solve, Job.solve_id == Solve.id)
                .where(BatchJob.batch_id.in_([batch.id for batch in batches]))
                .group_by(BatchJob.batch_id)
            )
        }
        return [BatchCount(batch, *counts.get(batch.id, (0, 0))) for batch in batches]
