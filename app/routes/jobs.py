"""The jobs: list, look at, fetch the result, progress and log of, and cancel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from app.dependencies import DeletingCaller, JobId, ReadCaller, ServicesDep
from app.errors import (
    DatabaseUnavailable,
    InvalidRequest,
    JobNotFound,
    NoPlan,
    RequestNotKept,
    ResultNotReady,
    SolveFailed,
)
from app.models import SolveState
from app.routes.answers import json_text
from app.routes.conditional import (
    NOT_MODIFIED,
    PreconditionDep,
    not_modified,
    strong_tag,
    tagged,
    weak_tag,
)
from app.schemas.jobs import JobPage, JobView, LogPage, ProgressPage
from app.schemas.problems import problem_responses
from app.services.job_views import TICKING, version_of
from app.services.jobs import JobStatus
from app.services.result_parts import Form, Parts
from app.services.waiting import wanted_wait_s

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

Text = Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
PartOfText = Annotated[
    Text, Query(description="A part of it, in whatever case; `%` and `_` stand for themselves.")
]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
FOUND = problem_responses(JobNotFound, DatabaseUnavailable)


@router.get(
    "",
    response_model=JobPage,
    responses={**NOT_MODIFIED, **problem_responses(InvalidRequest, DatabaseUnavailable)},
)
def list_jobs(
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    state: SolveState | None = None,
    name: PartOfText = None,
    model: PartOfText = None,
    tag: Text = None,
    kind: Text = None,
    cursor: Text = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Jobs that match all filters, newest first."""
    page = services.jobs.page(
        caller,
        state=state,
        name=name,
        model=model,
        tag=tag,
        kind=kind,
        cursor=cursor,
        limit=limit,
    )
    headers = tagged(weak_tag(page.model_dump_json(exclude={"jobs": {"__all__": TICKING}})))
    if known.holds(headers["ETag"]):
        return not_modified(headers)
    return json_text(page.model_dump_json(), headers)


@router.get("/{job_id}", response_model=JobView, responses={**NOT_MODIFIED, **FOUND})
async def get_job(
    job_id: JobId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    prefer: Annotated[
        str | None,
        Header(
            description="`wait=N`: answer once something has changed from what `If-None-Match` "
            "says, or without that once the job is over; at the latest after N seconds."
        ),
    ] = None,
) -> Response:
    """How a job is getting on."""
    wait_s = wanted_wait_s(prefer, services.settings.max_wait_s)

    def is_worth_telling(status: JobStatus) -> bool:
        changed = known.is_given and not known.holds(weak_tag(version_of(status.view)))
        return changed or status.view.state.is_over

    status = await services.waits.look_until(
        lambda: services.jobs.poll(caller, job_id), is_worth_telling, wait_s
    )
    headers = tagged(weak_tag(version_of(status.view)), {"Vary": "Prefer"})
    if status.retry_after_s is not None:
        headers["Retry-After"] = str(status.retry_after_s)
    if wait_s:
        headers["Preference-Applied"] = f"wait={wait_s:g}"
    if known.holds(headers["ETag"]):
        return not_modified(headers)
    return json_text(status.view.model_dump_json(), headers)


@router.get(
    "/{job_id}/result",
    responses={
        200: {
            "model": dict[str, Any],
            "description": "Of a pipeline schedule `problem`, `schedule`, `comparison`, "
            "`certificate` and `provenance`; of a sharding plan `instance`, `plan`, `baselines`, "
            "`certificate` and `provenance`; of a training plan `plans`, `best`, `searched`, "
            "`dropped`, `certificate` and `provenance`; for an infeasible job `infeasibility` in "
            "place of the plan; for a cancelled one the best plan found before it stopped.",
        },
        **NOT_MODIFIED,
        **problem_responses(
            InvalidRequest, JobNotFound, NoPlan, ResultNotReady, SolveFailed, DatabaseUnavailable
        ),
    },
)
def get_job_result(
    job_id: JobId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    fields: Annotated[
        str | None,
        Query(
            max_length=2000,
            description="Paths to keep, or with a `-` before them to leave out: "
            "`certificate,schedule.makespan_ns` or `-schedule.ops`.",
        ),
    ] = None,
    form: Annotated[
        Form, Query(description="`columnar`: lists of like objects as one object of lists.")
    ] = Form.ROWS,
) -> Response:
    """The result, once the job is over."""
    parts = Parts.read(fields, form)

    def tag_of(version: str) -> str:
        return strong_tag(version, repr(parts))

    result = services.jobs.result(caller, job_id, lambda version: known.holds(tag_of(version)))
    headers = tagged(tag_of(result.version))
    if result.text is None:
        return not_modified(headers)
    return json_text(result.text if parts.is_whole else parts.of(result.text), headers)


@router.get(
    "/{job_id}/request",
    responses={
        200: {"model": dict[str, Any], "description": "The body, to be posted again as it is."},
        **problem_responses(JobNotFound, RequestNotKept, DatabaseUnavailable),
    },
)
def get_job_request(job_id: JobId, caller: ReadCaller, services: ServicesDep) -> Response:
    """What was posted for the job, without its webhook."""
    return json_text(services.jobs.request(caller, job_id))


@router.get("/{job_id}/progress", responses={**FOUND, **problem_responses(InvalidRequest)})
def get_job_progress(
    job_id: JobId, caller: ReadCaller, services: ServicesDep, offset: Offset = 0
) -> ProgressPage:
    """The steps of the job's solve so far, at most a page at a time."""
    return services.jobs.progress(caller, job_id, offset)


@router.get("/{job_id}/log", responses=FOUND)
def get_job_log(
    job_id: JobId, caller: ReadCaller, services: ServicesDep, offset: Offset = 0
) -> LogPage:
    """The solver's log, at most a page at a time."""
    return services.jobs.log(caller, job_id, offset)


@router.delete(
    "/{job_id}",
    response_model=JobView,
    responses={
        204: {"description": "With `purge`: the job is no more."},
        **problem_responses(JobNotFound, ResultNotReady, DatabaseUnavailable),
    },
)
def cancel_job(
    job_id: JobId, caller: DeletingCaller, services: ServicesDep, purge: bool = False
) -> JobView | Response:
    """Cancel a job. Its solve stops, keeping the best plan, if no other job waits for it.

    Cancelling again, or when the job is over, changes nothing and answers the same way. With
    `purge` a job that is over is removed with its log, events and result.
    """
    if purge:
        services.purging.purge(caller, job_id)
        return Response(status_code=204)
    return services.jobs.cancel(caller, job_id)
