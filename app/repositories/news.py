"""What a solve reported on its way, as it is read: its steps and its log."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, select
from sqlalchemy.orm import InstrumentedAttribute

from app.models import SolveEvent, SolveLogLine
from app.repositories.job_rows import JobRow


class Step(NamedTuple):
    """A row of `solve_events`."""

    seq: int
    at: int
    state: str
    attempt: int
    phase: str | None
    spent_ms: int
    best_objective: int | None
    lower_bound: int | None
    detail: str | None


class LogLine(NamedTuple):
    """A numbered line of a solve's log."""

    seq: int
    line: str


_STEP_COLUMNS = tuple(getattr(SolveEvent, name) for name in Step._fields)


class NewsReader:
    """Queries of `solve_events` and `solve_log_lines`, each as far as the job may know of it.

    When another tenant's solve answers a job, what it did before the job came is not told; nor is
    what a solve does for others after the job has left it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def steps(self, job: JobRow, first: int, limit: int) -> list[Step]:
        """Steps with numbers from `first` on, oldest first."""
        statement = (
            select(*_STEP_COLUMNS)
            .where(
                SolveEvent.solve_id == job.solve_id,
                SolveEvent.seq >= first,
                _within_the_job(SolveEvent.at, job),
            )
            .order_by(SolveEvent.seq)
            .limit(limit)
        )
        return [Step(*row) for row in self._connection.execute(statement)]

    def lines(self, job: JobRow, first: int, limit: int) -> list[LogLine]:
        """Log lines with numbers from `first` on, oldest first."""
        statement = (
            select(SolveLogLine.seq, SolveLogLine.line)
            .where(
                SolveLogLine.solve_id == job.solve_id,
                SolveLogLine.seq >= first,
                _within_the_job(SolveLogLine.at, job),
            )
            .order_by(SolveLogLine.seq)
            .limit(limit)
        )
        return [LogLine(*row) for row in self._connection.execute(statement)]


def _within_the_job(at: InstrumentedAttribute[int], job: JobRow) -> ColumnElement[bool]:
    conditions: list[Any] = []
    if job.is_of_another_tenant:
        conditions.append(at >= job.created_at)
    if job.left_early:
        conditions.append(at <= job.cancelled_at)
    return and_(True, *conditions)
