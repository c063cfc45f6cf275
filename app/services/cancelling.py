"""Cancelling a job: it leaves its solve, which stops with the last one."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.callers import Caller
from app.errors import JobNotFound
from app.models import SolveState
from app.observability import metrics
from app.repositories.event_log import EventLog
from app.repositories.jobs import JobRepository
from app.repositories.solves import SolveRepository
from app.services.audit import record
from app.services.transitions import PLAN_COLUMNS, cancel


def detach(session: Session, caller: Caller, job_id: str) -> None:
    """Detach the job; its solve stops, and keeps its best plan, if it was the last one.

    Where the job is over or was cancelled before, nothing changes. Raises `JobNotFound`.
    """
    jobs = JobRepository(session)
    job = jobs.get(caller.tenant, job_id)
    if job is None:
        raise JobNotFound(f"There is no job {job_id}.")
    solve = SolveRepository(session).lock(job.solve_id, *PLAN_COLUMNS)
    session.refresh(job)
    if job.cancelled_at is not None or SolveState(solve.state).is_over:
        return
    is_last = jobs.waiting(solve.id) == 1
    jobs.cancel(job, stops_solve=is_last)
    record(session, caller, "job cancelled", job.id)
    if not is_last:
        return
    solve.reusable = False
    if solve.state == SolveState.QUEUED:
        cancel(solve)
        EventLog(session).change(solve.id)
        metrics.solve_ended(solve)
    else:
        solve.stop_requested = True
