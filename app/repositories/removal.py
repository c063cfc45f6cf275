"""Deleting jobs, solves and runs with all that is theirs, in the order of the foreign keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.models import (
    PARTS_OF_RUNS,
    Base,
    Batch,
    BatchJob,
    Job,
    JobTag,
    Run,
    Solve,
    SolveEvent,
    SolveLogLine,
    Webhook,
    WebhookAttempt,
)
from app.repositories.idempotency import forget_keys_of


class RemovalRepository:
    """Deletes rows. Whether they may go is decided before."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def remove_jobs(self, job_ids: Sequence[str]) -> None:
        """Delete jobs with what is theirs, and batches of which no job is left."""
        batches = self._ids(BatchJob.batch_id, BatchJob.job_id.in_(job_ids))
        webhooks = select(Webhook.id).where(Webhook.job_id.in_(job_ids))
        self._delete(WebhookAttempt, WebhookAttempt.webhook_id.in_(webhooks))
        for table, job_id in (
            (Webhook, Webhook.job_id),
            (BatchJob, BatchJob.job_id),
            (JobTag, JobTag.job_id),
            (Job, Job.id),
        ):
            self._delete(table, job_id.in_(job_ids))
        empty = self._ids(
            Batch.id, Batch.id.in_(batches), ~exists().where(BatchJob.batch_id == Batch.id)
        )
        self._delete(Batch, Batch.id.in_(empty))
        forget_keys_of(self._session, [*job_ids, *empty])

    def remove_solve(self, solve_id: str) -> None:
        """Delete a solve that no job refers to."""
        self.remove_log(solve_id)
        self._delete(Solve, Solve.id == solve_id)

    def remove_run(self, run_id: str) -> None:
        """Delete a run with what is its own; jobs that were made for it stay."""
        for table in PARTS_OF_RUNS:
            self._delete(table, table.run_id == run_id)
        self._delete(Run, Run.id == run_id)
        forget_keys_of(self._session, [run_id])

    def remove_log(self, solve_id: str) -> int:
        """Delete a solve's log and events; how many rows there were."""
        lines = self._delete(SolveLogLine, SolveLogLine.solve_id == solve_id)
        return lines + self._delete(SolveEvent, SolveEvent.solve_id == solve_id)

    def _ids(
        self, column: InstrumentedAttribute[str], *conditions: ColumnElement[bool]
    ) -> Sequence[str]:
        return self._session.scalars(select(column).where(*conditions).distinct()).all()

    def _delete(self, table: type[Base], *conditions: ColumnElement[bool]) -> int:
        statement: Any = delete(table).where(*conditions)
        result: Any = self._session.execute(statement.execution_options(synchronize_session=False))
        return int(result.rowcount)
