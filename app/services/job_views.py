"""From rows to what the API says about a job."""

from __future__ import annotations

import hashlib
from typing import Protocol, TypedDict

from sqlalchemy import Connection

from app.callers import Caller
from app.errors import JobNotFound
from app.models import PIPELINE, SHARDING, TRAINING, SolveState
from app.repositories.job_rows import JobReader, JobRow
from app.repositories.news import Step
from app.schemas.jobs import Accepted, JobView, ProgressStep, links_of
from app.schemas.times import instant, known_instant

LONGEST_RETRY_S = 5
SECONDS_PER_RETRY_SECOND = 15
"""Of a job that has run this long, or twice as long …, a client is asked to wait a second more."""
VERSION_BYTES = 12
TICKING = {"heartbeat_age_s", "spent_s"}
"""Fields of a view that change with every heartbeat, which is no news."""


class _Bests(TypedDict):
    best_makespan_ns: int | None
    best_step_time_ns: int | None
    lower_bound_ns: int | None
    best_objective_bytes: int | None
    lower_bound_bytes: int | None


class _Reached(Protocol):
    """A solve, or a step of it."""

    @property
    def best_objective(self) -> int | None: ...
    @property
    def lower_bound(self) -> int | None: ...


def row_of(connection: Connection, caller: Caller, job_id: str) -> JobRow:
    """The caller's job. Raises `JobNotFound`."""
    row = JobReader(connection).one(caller.tenant, job_id)
    if row is None:
        raise JobNotFound(f"There is no job {job_id}.")
    return row


def job_view(row: JobRow) -> JobView:
    """The public view of a job and its solve."""
    running = row.solve_state == SolveState.RUNNING
    return JobView(
        id=row.id,
        kind=row.kind,
        name=row.name,
        model=row.model,
        tags=list(row.tags),
        priority=row.priority,
        state=SolveState(row.state),
        cancel_requested=row.stopping,
        cache=row.cache,
        engine=row.engine,
        queue=row.queue,
        queue_position=row.queue_position,
        phase=row.phase,
        time_limit_s=row.time_limit_ms / 1000,
        spent_s=_spent_s(row, row.spent_ms, _finished_at(row) or row.now),
        **_bests(row.kind, row),
        gap=gap_of(row, proven_optimal=row.proven_optimal),
        progress_at=instant(_not_before_the_job(row, row.progress_at)),
        heartbeat_age_s=_age_s(row.heartbeat_at, row.now) if running else None,
        attempts=row.attempts,
        crashes=row.crashes,
        losses=row.losses,
        created_at=known_instant(row.created_at),
        started_at=instant(_not_before_the_job(row, row.started_at)),
        finished_at=instant(_not_before_the_job(row, _finished_at(row))),
        links=links_of(row.id),
    )


def progress_step(row: JobRow, step: Step) -> ProgressStep:
    """The public view of a step of a job's solve."""
    is_last = (step.best_objective, step.lower_bound) == (row.best_objective, row.lower_bound)
    return ProgressStep(
        seq=step.seq,
        at=known_instant(step.at),
        state=SolveState(step.state),
        attempt=step.attempt,
        phase=step.phase,
        spent_s=_spent_s(row, step.spent_ms, step.at),
        **_bests(row.kind, step),
        gap=gap_of(step, proven_optimal=row.proven_optimal and is_last),
        detail=step.detail,
    )


def version_of(view: JobView) -> str:
    """Differs as soon as a view says something new."""
    text = view.model_dump_json(exclude=TICKING)
    return hashlib.blake2b(text.encode(), digest_size=VERSION_BYTES).hexdigest()


def accepted_view(view: JobView) -> Accepted:
    """What the answer to a submitted request says."""
    return Accepted(
        id=view.id,
        state=view.state,
        cache=view.cache,
        queue_position=view.queue_position,
        enqueued_at=view.created_at,
        links=view.links,
    )


def retry_after_s(row: JobRow) -> int | None:
    """When to ask again: soon for a young job, later for one that takes long or has others before
    it; None once it is over."""
    if row.is_over:
        return None
    waited_s = (row.now - row.created_at) // 1000
    wanted_s = max(1 + waited_s // SECONDS_PER_RETRY_SECOND, row.queue_position or 1)
    return min(LONGEST_RETRY_S, wanted_s)


def _bests(kind: str, reached: _Reached) -> _Bests:
    """Objective and bound in the fields of the solve's kind; None in those of the others."""
    best, bound = reached.best_objective, reached.lower_bound
    is_sharding = kind == SHARDING
    return {
        "best_makespan_ns": best if kind == PIPELINE else None,
        "best_step_time_ns": best if kind == TRAINING else None,
        "lower_bound_ns": None if is_sharding else bound,
        "best_objective_bytes": best if is_sharding else None,
        "lower_bound_bytes": bound if is_sharding else None,
    }


def _finished_at(row: JobRow) -> int | None:
    if not row.is_over:
        return None
    return row.cancelled_at if row.left_early else row.solve_finished_at


def _not_before_the_job(row: JobRow, at: int | None) -> int | None:
    """When another tenant's solve answers, what it did before this job came is not told."""
    if at is None or not row.is_of_another_tenant:
        return at
    return max(at, row.created_at)


def _spent_s(row: JobRow, spent_ms: int, until: int) -> float:
    """Solver time; of another tenant's solve at most that since this job came."""
    if row.is_of_another_tenant:
        spent_ms = min(spent_ms, max(0, until - row.created_at))
    return spent_ms / 1000


def gap_of(reached: _Reached, *, proven_optimal: bool) -> float | None:
    """(best - bound) / best; None until both are known."""
    best, bound = reached.best_objective, reached.lower_bound
    if best is None or bound is None:
        return None
    # Objective and bound are rounded away from each other, which must not look like a gap.
    if proven_optimal or not best:
        return 0.0
    return round((best - bound) / best, 6)


def _age_s(then: int | None, now: int) -> float | None:
    return None if then is None else max(0.0, (now - then) / 1000)
