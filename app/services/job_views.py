"""From rows to what the API says about a job."""

from __future__ import annotations

from app.models import SolveState
from app.repositories.jobs import JobRow
from app.schemas.jobs import Accepted, JobView, links_of
from app.schemas.times import instant, known_instant


def job_view(row: JobRow) -> JobView:
    """The public view of a job and its solve."""
    job, solve = row.job, row.solve
    running = solve.state == SolveState.RUNNING
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
        best_makespan_ns=solve.best_objective_ns,
        lower_bound_ns=solve.lower_bound_ns,
        gap=_gap(solve.best_objective_ns, solve.lower_bound_ns),
        progress_at=instant(solve.progress_at),
        heartbeat_age_s=_age_s(solve.heartbeat_at, row.now) if running else None,
        attempts=solve.attempt,
        crashes=solve.crashes,
        losses=solve.losses,
        created_at=known_instant(job.created_at),
        started_at=instant(solve.started_at),
        finished_at=instant(_finished_at(row)),
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


def _finished_at(row: JobRow) -> int | None:
    if not row.state.is_over:
        return None
    # A job that left a solve for which others still waited ended when it left.
    left = row.job.cancelled_at is not None and not row.job.stops_solve
    return row.job.cancelled_at if left else row.solve.finished_at


def _gap(best_ns: int | None, bound_ns: int | None) -> float | None:
    if best_ns is None or bound_ns is None:
        return None
    return round((best_ns - bound_ns) / best_ns, 6) if best_ns else 0.0


def _age_s(then: int | None, now: int) -> float | None:
    return None if then is None else max(0.0, (now - then) / 1000)
