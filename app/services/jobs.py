"""Jobs as clients see them: reading, listing, cancelling, results and logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.callers import Caller
from app.cursors import decode_cursor, encode_cursor
from app.database import Database
from app.errors import JobNotFound, NoPlan, RequestNotKept, ResultNotReady, SolveFailed
from app.models import SolveState
from app.repositories.job_rows import Ending, JobFilter, JobReader, JobRow
from app.repositories.news import NewsReader
from app.schemas.jobs import JobPage, JobView, LogPage, ProgressPage
from app.services.cancelling import detach
from app.services.job_views import job_view, progress_step, retry_after_s, row_of
from app.services.kept_plan import without_traces
from app.services.polls import Polls

PAGE_OF_LINES = 1000
PAGE_OF_STEPS = 1000

CANCELLED_AT_ONCE = 25
"""By one transaction, which holds SQLite's write lock and the locks of their solves."""


@dataclass(frozen=True)
class JobStatus:
    """A job without its result, and in how many seconds it is worth asking again."""

    view: JobView
    retry_after_s: int | None


@dataclass(frozen=True)
class JobOutcome:
    """A job with the result (JSON text) or the error that it ended with, if it is over."""

    view: JobView
    retry_after_s: int | None
    result: str | None
    error: dict[str, Any] | None


@dataclass(frozen=True)
class JobResult:
    """A result (JSON text; None where the caller has it), and what tells it apart from others."""

    version: str
    text: str | None


class Jobs:
    """The rules of jobs, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._polls = Polls(database)

    def status(self, caller: Caller, job_id: str) -> JobStatus:
        """The job without its result."""
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
        return JobStatus(job_view(row), retry_after_s(row))

    async def poll(self, caller: Caller, job_id: str) -> JobStatus:
        """The same, read together with what others ask for at the same time."""
        row = await self._polls.row(job_id)
        if row is None or row.tenant != caller.tenant:
            raise JobNotFound(f"There is no job {job_id}.")
        return JobStatus(job_view(row), retry_after_s(row))

    def page(
        self,
        caller: Caller,
        *,
        state: SolveState | None,
        name: str | None,
        model: str | None,
        tag: str | None,
        kind: str | None,
        cursor: str | None,
        limit: int,
    ) -> JobPage:
        """One page of the jobs that match, newest first."""
        before = None if cursor is None else decode_cursor(cursor)
        wanted = JobFilter(state=state, name=name, model=model, tag=tag, kind=kind, before=before)
        with self._database.looking() as connection:
            rows = JobReader(connection).page(caller.tenant, wanted, limit + 1)
        shown = rows[:limit]
        last = shown[-1] if len(rows) > limit else None
        return JobPage(
            jobs=[job_view(row) for row in shown],
            next_cursor=None if last is None else encode_cursor(last.created_at, last.id),
        )

    def check_readable(self, caller: Caller) -> None:
        """Raise `DatabaseUnavailable` where jobs cannot be read, of an older schema for one."""
        with self._database.looking() as connection:
            JobReader(connection).page(caller.tenant, JobFilter(), 1)

    def is_over(self, caller: Caller, job_id: str) -> bool:
        """Whether the job has ended, by one light query."""
        with self._database.looking() as connection:
            return row_of(connection, caller, job_id).is_over

    def outcome(self, caller: Caller, job_id: str) -> JobOutcome:
        """The job with what it ended with."""
        with self._database.looking() as connection:
            found = JobReader(connection).one_with_ending(caller.tenant, job_id)
        if found is None:
            raise JobNotFound(f"There is no job {job_id}.")
        row, ending = found
        if not (row.is_over and row.solve_is_over):
            return JobOutcome(job_view(row), retry_after_s(row), None, None)
        return JobOutcome(job_view(row), None, *_shown(row, ending))

    def result(self, caller: Caller, job_id: str, is_known: Callable[[str], bool]) -> JobResult:
        """The result, which is not read if the caller has the one of this version.

        Raises `ResultNotReady` until the job is over, `SolveFailed` if it failed and `NoPlan` if
        it was cancelled without a plan.
        """
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
            if not row.is_over:
                raise _not_ready(row)
            if not row.solve_is_over:
                raise _no_plan()
            version = _result_version(row)
            if is_known(version):
                return JobResult(version, None)
            ending = JobReader(connection).ending(row.solve_id)
        text, error = _shown(row, ending)
        if text is not None:
            return JobResult(version, text)
        raise _no_plan() if row.state == SolveState.CANCELLED else _solve_failed(error or {})

    def request(self, caller: Caller, job_id: str) -> str:
        """The body that was posted for the job, without its webhook, as JSON text.

        Raises `RequestNotKept` for a job of a version that did not keep it.
        """
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
            text = JobReader(connection).request(row.id)
        if text is None:
            raise RequestNotKept.of(
                "was made by a version of the service that did not keep what was posted.",
                "What it solved is in its result.",
            )
        return text

    def log(self, caller: Caller, job_id: str, offset: int) -> LogPage:
        """Log lines from an offset on."""
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
            lines = NewsReader(connection).lines(row, offset, PAGE_OF_LINES)
        return LogPage(
            lines=[entry.line for entry in lines],
            next_offset=lines[-1].seq + 1 if lines else offset,
            over=row.is_over and len(lines) < PAGE_OF_LINES,
        )

    def progress(self, caller: Caller, job_id: str, offset: int) -> ProgressPage:
        """Steps of the job's solve from an offset on."""
        with self._database.looking() as connection:
            row = row_of(connection, caller, job_id)
            steps = NewsReader(connection).steps(row, offset, PAGE_OF_STEPS)
        return ProgressPage(
            steps=[progress_step(row, step) for step in steps],
            next_offset=steps[-1].seq + 1 if steps else offset,
            over=row.is_over and len(steps) < PAGE_OF_STEPS,
        )

    def cancel(self, caller: Caller, job_id: str) -> JobView:
        """Detach the job; its solve stops, and keeps its best plan, if it was the last one."""
        with self._database.writing() as session:
            detach(session, caller, job_id)
            session.flush()
            return job_view(row_of(session.connection(), caller, job_id))

    def cancel_all(self, caller: Caller, job_ids: Sequence[str]) -> None:
        """Cancel these jobs, some in each transaction; one that is removed meanwhile is skipped.

        They come in the order of their solves: whoever locks several takes them in that order.
        """
        for first in range(0, len(job_ids), CANCELLED_AT_ONCE):
            with self._database.writing() as session:
                for job_id in job_ids[first : first + CANCELLED_AT_ONCE]:
                    with suppress(JobNotFound):
                        detach(session, caller, job_id)


def _shown(row: JobRow, ending: Ending) -> tuple[str | None, dict[str, Any] | None]:
    """The result (JSON text) or the error that the solve of a job ended with."""
    result, error = ending
    if result is not None and row.is_of_another_tenant:
        result = without_traces(result)
    return result, None if error is None else json.loads(error)


def _result_version(row: JobRow) -> str:
    # A result is written once, when its solve ends, so that it need not be read for this.
    return f"{row.solve_id} {row.solve_finished_at} {row.is_of_another_tenant}"


def _not_ready(row: JobRow) -> ResultNotReady:
    return ResultNotReady(
        f"The job is {row.state}; ask again later.",
        headers={"Retry-After": str(retry_after_s(row))},
    )


def _no_plan() -> NoPlan:
    return NoPlan("The job was cancelled, and no plan was kept for it.")


def _solve_failed(error: Mapping[str, Any]) -> SolveFailed:
    return SolveFailed(
        str(error["detail"]), members={"code": error["code"], "log_tail": error["log_tail"]}
    )
