"""Training runs: what they report, and the plans that follow it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.callers import Caller
from app.dependencies import (
    CallerDep,
    DeletingCaller,
    ReadCaller,
    Services,
    ServicesDep,
    SubmitCaller,
    known_id,
)
from app.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    IdempotencyKeyReused,
    InvalidRequest,
    JobNotFound,
    LimitExceeded,
    MalformedBody,
    RunActive,
    RunNotFound,
    RunStopped,
    RunWithoutPlan,
    TooManyQueued,
    TooManyRuns,
    UnsupportedMediaType,
)
from app.models import RunStatus, SolveState
from app.observability.context import bind
from app.routes.answers import json_text
from app.routes.conditional import (
    NOT_MODIFIED,
    PreconditionDep,
    not_modified,
    tagged,
    weak_tag,
)
from app.routes.submitting import MannerDep, body_of, replayed
from app.routes.worked_out import worked_out
from app.schemas.diagnoses import DiagnosisView
from app.schemas.problems import problem_responses
from app.schemas.proposals import ProposalsView
from app.schemas.runs import (
    RunAccepted,
    RunItem,
    RunPage,
    RunView,
    TelemetryTaken,
)
from app.services.runs.views import run_item
from planner.following.telemetry import MOST_STAGES, read_telemetry

router = APIRouter(prefix="/v1/runs", tags=["runs"])

BODY = (MalformedBody, BodyTooLarge, UnsupportedMediaType, InvalidRequest)
FOUND = problem_responses(RunNotFound, DatabaseUnavailable)


async def _run_id(run_id: str, _: CallerDep) -> str:
    """Asks for the key first: without one, no address tells anything."""
    known = known_id("run", run_id, RunNotFound)
    bind(run_id=known)
    return known


RunId = Annotated[str, Depends(_run_id)]


@router.post(
    "",
    status_code=201,
    response_model=RunAccepted,
    openapi_extra=body_of("RunRequest"),
    responses={
        200: {
            "model": dict[str, Any],
            "description": "With `validate_only`: the resolved problem, its bounds and `follow`.",
        },
        **problem_responses(
            *BODY,
            LimitExceeded,
            IdempotencyKeyReused,
            TooManyQueued,
            TooManyRuns,
            DatabaseUnavailable,
        ),
    },
)
async def start_run(
    request: Request, caller: SubmitCaller, services: ServicesDep, manner: MannerDep
) -> Response:
    """Follow a training run: plan it, and plan it afresh as it reports what it takes."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    if manner.validate_only:
        return JSONResponse(await run_in_threadpool(services.run_requests.preview, caller, body))
    made = await run_in_threadpool(
        services.run_requests.submit,
        caller,
        body,
        fresh=manner.fresh,
        idempotency_key=manner.idempotency_key,
    )
    accepted = await run_in_threadpool(services.runs.accepted, caller, made.id)
    headers = {"Location": accepted.links.self}
    response = JSONResponse(accepted.model_dump(mode="json"), status_code=201, headers=headers)
    return replayed(response, made)


@router.get("", responses=problem_responses(InvalidRequest, DatabaseUnavailable))
def list_runs(
    caller: ReadCaller,
    services: ServicesDep,
    state: RunStatus | None = None,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RunPage:
    """Runs, newest first."""
    return services.runs.page(caller, state, cursor, limit)


@router.get("/{run_id}", response_model=RunView, responses={**NOT_MODIFIED, **FOUND})
async def get_run(
    request: Request,
    run_id: RunId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
) -> Response:
    """A run: what its stages take, its versions, the solve in flight, and what has happened."""
    row = await services.runs.poll(caller, run_id)
    solve = await _solve_state(services, caller, row.job_id)
    # Telemetry and acknowledgements are news; what comes of them is a revision.
    headers = tagged(weak_tag(str((row.id, row.state, row.revision, row.news, row.job_id, solve))))
    if known.holds(headers["ETag"]):
        return not_modified(headers)
    work = partial(services.runs.view, caller, run_id)
    view = await worked_out(request, services.charts, work)
    return json_text(view.model_dump_json(), headers)


async def _solve_state(services: Services, caller: Caller, job_id: str | None) -> SolveState | None:
    if job_id is not None:
        with suppress(JobNotFound):
            return (await services.jobs.poll(caller, job_id)).view.state
    return None


@router.patch(
    "/{run_id}",
    openapi_extra=body_of("RunChange"),
    responses={**FOUND, **problem_responses(*BODY, LimitExceeded, RunStopped)},
)
async def change_run(
    request: Request, run_id: RunId, caller: SubmitCaller, services: ServicesDep
) -> RunItem:
    """Change how a run is followed, or what is planned for it: another number of devices, other
    memory limits. A plan for another shape is never swapped in: its ranks restart with it."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    await run_in_threadpool(services.run_requests.change, caller, run_id, body)
    return run_item(await services.runs.poll(caller, run_id))


@router.delete(
    "/{run_id}",
    response_model=RunItem,
    responses={
        204: {"description": "With `purge`: the run is no more."},
        **problem_responses(RunNotFound, RunActive, DatabaseUnavailable),
    },
)
def stop_run(
    run_id: RunId, caller: DeletingCaller, services: ServicesDep, purge: bool = False
) -> RunItem | Response:
    """Follow the run no longer; what it has stays. With `purge` a stopped run is removed."""
    if purge:
        services.runs.purge(caller, run_id)
        return Response(status_code=204)
    return run_item(services.runs.stop(caller, run_id))


@router.post(
    "/{run_id}/telemetry",
    response_model=TelemetryTaken,
    openapi_extra=body_of("RunTelemetry"),
    responses={**FOUND, **problem_responses(*BODY, RunStopped)},
)
async def post_telemetry(
    request: Request, run_id: RunId, caller: SubmitCaller, services: ServicesDep
) -> Response:
    """Report what stages took in one iteration or in several.

    Of what is reported twice the first is kept, and the order does not matter.
    """
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    if _is_long(body):
        samples = await run_in_threadpool(read_telemetry, body, MOST_STAGES)
    else:
        samples = read_telemetry(body, MOST_STAGES)
    taken = await services.telemetry.store(caller, run_id, samples)
    return JSONResponse(taken.to_document())


def _is_long(body: Mapping[str, Any]) -> bool:
    """Whether it may take long enough to read to hold up other requests: it has several iterations,
    or more stages than a run may have."""
    stages = body.get("stages")
    return "iterations" in body or (isinstance(stages, list) and len(stages) > MOST_STAGES)


@router.get(
    "/{run_id}/proposals",
    response_model=ProposalsView,
    responses={**FOUND, **problem_responses(RunWithoutPlan)},
)
async def get_run_proposals(
    request: Request, run_id: RunId, caller: ReadCaller, services: ServicesDep
) -> Response:
    """Other numbers of micro-batches and other partitions of the layers that would be faster."""
    work = partial(services.run_advice.proposals, caller, run_id)
    return json_text(await worked_out(request, services.charts, work))


@router.get(
    "/{run_id}/diagnosis",
    response_model=DiagnosisView,
    responses={**FOUND, **problem_responses(RunWithoutPlan)},
)
async def get_run_diagnosis(
    request: Request, run_id: RunId, caller: ReadCaller, services: ServicesDep
) -> Response:
    """What the run's telemetry says is wrong with it, likely causes first."""
    work = partial(services.run_advice.diagnosis, caller, run_id)
    return json_text(await worked_out(request, services.charts, work))
