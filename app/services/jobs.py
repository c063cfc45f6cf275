"""Jobs as clients see them: reading, listing, cancelling, results and logs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.callers import Caller
from app.cursors import decode_cursor, encode_cursor
from app.database import Database
from app.errors import JobNotFound, NoPlan, ResultNotReady, SolveFailed
from app.models import Solve, SolveState
from app.repositories.jobs import JobFilter, JobRepository, JobRow
from app.repositories.logs import LogRepository
from app.repositories.solves import SolveRepository
from app.schemas.jobs import JobPage, JobView, LogPage
from app.services.job_views import job_view
from app.services.kept_plan import without_traces
from app.services.transitions import PLAN_COLUMNS, cancel

LOG_PAGE_LINES = 1000


@dataclass(frozen=True)
class JobOutcome:
    """A job with the result (JSON text) or the error that it ended with, if it is over."""

    view: JobView
    result: str | None
    error: dict[str, object] | None


class Jobs:
    """The rules of jobs, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def view(self, caller: Caller, job_id: str) -> JobView:
        """The job without its result."""
        with self._database.reading() as session:
            return job_view(_row(session, caller, job_id))

    def page(
        self,
        caller: Caller,
        *,
        state: SolveState | None,
        name: str | None,
        tag: str | None,
        kind: str | None,
        cursor: str | None,
        limit: int,
    ) -> JobPage:
        """One page of the jobs that match, newest first."""
        before = None if cursor is None else decode_cursor(cursor)
        wanted = JobFilter(state=state, name=name, tag=tag, kind=kind, before=before)
        with self._database.reading() as session:
            rows = JobRepository(session).page(caller.tenant, wanted, limit + 1)
        shown = rows[:limit]
        more = len(rows) > limit
        last = shown[-1].job if more else None
        return JobPage(
            jobs=[job_view(row) for row in shown],
            next_cursor=None if last is None else encode_cursor(last.created_at, last.id),
        )

    def is_over(self, caller: Caller, job_id: str) -> bool:
        """Whether the job has ended, by one light query."""
        with self._database.reading() as session:
            return _row(session, caller, job_id).state.is_over

    def outcome(self, caller: Caller, job_id: str) -> JobOutcome:
        """The job with what it ended with."""
        with self._database.reading() as session:
            row = _row(session, caller, job_id)
            view = job_view(row)
            if not row.state.is_over or not SolveState(row.solve.state).is_over:
                return JobOutcome(view, None, None)
            solves = SolveRepository(session)
            error = solves.document(row.solve.id, Solve.error)
            result = solves.document(row.solve.id, Solve.result)
            if result is not None and row.solve.tenant != row.job.tenant:
                result = without_traces(result)
            return JobOutcome(
                view,
                result,
                None if error is None else json.loads(error),
            )

    def result(self, caller: Caller, job_id: str) -> str:
        """The result document as JSON text.

        Raises `ResultNotReady` until the job is over, `SolveFailed` if it failed and `NoPlan` if
        it was cancelled without a plan.
        """
        outcome = self.outcome(caller, job_id)
        view = outcome.view
        if not view.state.is_over:
            raise ResultNotReady(
                f"The job is {view.state}; ask again later.", headers={"Retry-After": "1"}
            )
        if outcome.result is not None:
            return outcome.result
        if view.state == SolveState.CANCELLED:
            raise NoPlan("The job was cancelled, and no plan was kept for it.")
        error = outcome.error or {}
        raise SolveFailed(
            str(error["detail"]),
            members={"code": error["code"], "log_tail": error["log_tail"]},
        )

    def log(self, caller: Caller, job_id: str, offset: int) -> LogPage:
        """Log lines from an offset on."""
        with self._database.reading() as session:
            row = _row(session, caller, job_id)
            lines = LogRepository(session).read(row.solve.id, offset, LOG_PAGE_LINES)
        over = SolveState(row.solve.state).is_over and len(lines) < LOG_PAGE_LINES
        return LogPage(
            lines=[entry.line for entry in lines],
            next_offset=lines[-1].seq + 1 if lines else offset,
            over=over,
        )

    def cancel(self, caller: Caller, job_id: str) -> JobView:
        """Detach the job; its solve stops, and keeps its best plan, if it was the last one."""
        with self._database.writing() as session:
            self._detach(session, caller, job_id)
            session.flush()
            return job_view(_row(session, caller, job_id))

    def _detach(self, session: Session, caller: Caller, job_id: str) -> None:
        jobs = JobRepository(session)
        job = jobs.get(caller.tenant, job_id)
        if job is None:
            raise _no_such_job(job_id)
        solve = SolveRepository(session).lock(job.solve_id, *PLAN_COLUMNS)
        session.refresh(job)
        if job.cancelled_at is not None or SolveState(solve.state).is_over:
            return
        is_last = jobs.waiting(solve.id) == 1
        jobs.cancel(job, stops_solve=is_last)
        if not is_last:
            return
        solve.reusable = False
        if solve.state == SolveState.QUEUED:
            cancel(solve)
        else:
            solve.stop_requested = True


def _row(session: Session, caller: Caller, job_id: str) -> JobRow:
    row = JobRepository(session).view(caller.tenant, job_id)
    if row is None:
        raise _no_such_job(job_id)
    return row


def _no_such_job(job_id: str) -> JobNotFound:
    return JobNotFound(f"There is no job {job_id}.")
