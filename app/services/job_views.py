"""From rows to what the API says about a job."""

from __future__ import annotations

from app.models import PIPELINE, SHARDING, TRAINING, Solve, SolveState
from app.repositories.jobs import JobRow
from app.schemas.jobs import Accepted, JobView, links_of
from app.schemas.times import instant, known_instant


def job_view(row: JobRow) -> JobView:
    """The public view of a job and its solve."""
    job, solve = row.job, row.solve
    running = solve.state == SolveState.RUNNING
    is_sharding = solve.kind == SHARDING
    return JobView(
        id=job.id,
        kind=solve.kind,
        name=job.name,
        tags=list(row.tags),
        priority=job.priority,
        state=row.state,
        cancel_requested=row.stopping,
        cache=job.cache,
        engine=solve.engine,
        queue_position=row.queue_position,
        phase=solve.phase,
        best_makespan_ns=_best(solve, PIPELINE),
        best_step_time_ns=_best(solve, TRAINING),
        lower_bound_ns=None if is_sharding else solve.lower_bound,
        best_objective_bytes=_best(solve, SHARDING),
        lower_bound_bytes=solve.lower_bound if is_sharding else None,
        gap=_gap(solve),
        progress_at=instant(solve.progress_at),
        heartbeat_age_s=_age_s(solve.heartbeat_at, row.now) if running else None,
        attempts=solve.attempt,
        crashes=solve.crashes,
        losses=solve.losses,
        created_at=known_instant(job.created_at),
        started_at=instant(_not_before_the_job(row, solve.started_at)),
        finished_at=instant(_not_before_the_job(row, _finished_at(row))),
        links=links_of(job.id),
    )


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


def _best(solve: Solve, kind: str) -> int | None:
    """The best objective of a solve of this kind; None for the other kinds' fields."""
    return solve.best_objective if solve.kind == kind else None


def _finished_at(row: JobRow) -> int | None:
    if not row.state.is_over:
        return None
    # A job that left a solve for which others still waited ended when it left.
    left = row.job.cancelled_at is not None and not row.job.stops_solve
    return row.job.cancelled_at if left else row.solve.finished_at


def _not_before_the_job(row: JobRow, at: int | None) -> int | None:
    """When another tenant's solve answers, what it did before this job came is not told."""
    if at is None or row.solve.tenant == row.job.tenant:
        return at
    return max(at, row.job.created_at)


def _gap(solve: Solve) -> float | None:
    best, bound = solve.best_objective, solve.lower_bound
    if best is None or bound is None:
        return None
    # Objective and bound are rounded away from each other, which must not look like a gap.
    if solve.proven_optimal or not best:
        return 0.0
    return round((best - bound) / best, 6)


def _age_s(then: int | None, now: int) -> float | None:
    return None if then is None else max(0.0, (now - then) / 1000)
