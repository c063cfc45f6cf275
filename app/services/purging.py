"""Purging: removing a finished job and what only it kept."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.callers import Caller
from app.database import Database
from app.errors import JobNotFound, ResultNotReady
from app.models import SolveState
from app.repositories.job_rows import JobReader
from app.repositories.jobs import JobRepository
from app.repositories.removal import RemovalRepository
from app.repositories.solves import SolveRepository
from app.services.audit import record


class Purging:
    """Removes jobs for good, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def purge(self, caller: Caller, job_id: str) -> None:
        """Remove the job, and its solve with log and result if no job of anybody refers to it.

        Raises `JobNotFound`, or `ResultNotReady` if the job is not over.
        """
        with self._database.writing() as session:
            jobs = JobRepository(session)
            job = jobs.get(caller.tenant, job_id)
            if job is None:
                raise JobNotFound(f"There is no job {job_id}.")
            # Whoever would attach a job to the solve waits for this lock, and then finds it gone.
            solve = SolveRepository(session).lock(job.solve_id)
            self._require_over(session, caller, job_id)
            removal = RemovalRepository(session)
            removal.remove_jobs([job_id])
            if SolveState(solve.state).is_over and jobs.first_of(solve.id) is None:
                removal.remove_solve(solve.id)
            record(session, caller, "job purged", target=job_id)

    def _require_over(self, session: Session, caller: Caller, job_id: str) -> None:
        row = JobReader(session.connection()).one(caller.tenant, job_id)
        if row is None:
            raise JobNotFound(f"There is no job {job_id}.")
        if not row.is_over:
            raise ResultNotReady(
                f"The job is {row.state}; cancel it first.", headers={"Retry-After": "1"}
            )
