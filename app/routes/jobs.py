"""The jobs: list, look at, fetch the result and log of, and cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.dependencies import CallerDep, JobId, ServicesDep
from app.errors import (
    DatabaseUnavailable,
    InvalidRequest,
    JobNotFound,
    NoPlan,
    ResultNotReady,
    SolveFailed,
)
from app.models import SolveState
from app.routes.answers import json_text
from app.schemas.jobs import JobPage, JobView, LogPage
from app.schemas.problems import problem_responses

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

Text = Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
FOUND = problem_responses(JobNotFound, DatabaseUnavailable)


@router.get("", responses=problem_responses(InvalidRequest, DatabaseUnavailable))
def list_jobs(
    caller: CallerDep,
    services: ServicesDep,
    state: SolveState | None = None,
    name: Text = None,
    tag: Text = None,
    kind: Text = None,
    cursor: Text = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JobPage:
    """Jobs that match all filters, newest first."""
    return services.jobs.page(
        caller, state=state, name=name, tag=tag, kind=kind, cursor=cursor, limit=limit
    )


@router.get("/{job_id}", responses=FOUND)
def get_job(job_id: JobId, caller: CallerDep, services: ServicesDep, response: Response) -> JobView:
    """How a job is getting on."""
    view = services.jobs.view(caller, job_id)
    if not view.state.is_over:
        response.headers["Retry-After"] = "1"
    return view


@router.get(
    "/{job_id}/result",
    responses={
        200: {
            "description": "Of a pipeline schedule `problem`, `schedule`, `comparison`, "
            "`certificate` and `provenance`; of a sharding plan `instance`, `plan`, `baselines`, "
            "`certificate` and `provenance`; of a training plan `plans`, `best`, `searched`, "
            "`dropped`, `certificate` and `provenance`; for an infeasible job `infeasibility` in "
            "place of the plan; for a cancelled one the best plan found before it stopped."
        },
        **problem_responses(JobNotFound, NoPlan, ResultNotReady, SolveFailed, DatabaseUnavailable),
    },
)
def get_job_result(job_id: JobId, caller: CallerDep, services: ServicesDep) -> Response:
    """The result, once the job is over."""
    return json_text(services.jobs.result(caller, job_id))


@router.get("/{job_id}/log", responses=FOUND)
def get_job_log(
    job_id: JobId,
    caller: CallerDep,
    services: ServicesDep,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
) -> LogPage:
    """The solver's log, at most a page at a time."""
    return services.jobs.log(caller, job_id, offset)


@router.delete("/{job_id}", responses=FOUND)
def cancel_job(job_id: JobId, caller: CallerDep, services: ServicesDep) -> JobView:
    """Cancel a job. Its solve stops, keeping the best plan, if no other job waits for it.

    Cancelling again, or when the job is over, changes nothing and answers the same way.
    """
    return services.jobs.cancel(caller, job_id)
