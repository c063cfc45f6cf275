"""The plans of a training run: fetched, drawn, and acknowledged by the ranks that hold them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.dependencies import ReadCaller, ServicesDep, SubmitCaller
from app.errors import RunStopped, VersionNotFound, VersionSuperseded
from app.repositories.run_rows import RunRow
from app.root_path import public_path
from app.routes.answers import json_text
from app.routes.conditional import NOT_MODIFIED, PreconditionDep, not_modified, strong_tag, tagged
from app.routes.runs import BODY, FOUND, RunId
from app.routes.submitting import body_of
from app.routes.worked_out import worked_out
from app.schemas.problems import problem_responses
from app.schemas.requests import read_fields
from app.schemas.runs import AckRequest, AckTaken, PlanAwaited, PlanView
from app.schemas.timelines import TimelineView
from app.services.waiting import wanted_wait_s

router = APIRouter(prefix="/v1/runs", tags=["runs"])

RETRY_AFTER_S = 2
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]
Brief = Annotated[bool, Query(description="Without `problem` and `schedule`.")]


@router.get(
    "/{run_id}/plan",
    response_model=PlanView,
    responses={
        202: {"model": PlanAwaited, "description": "There is no plan yet."},
        **NOT_MODIFIED,
        **FOUND,
        **problem_responses(VersionNotFound),
    },
)
async def get_run_plan(
    run_id: RunId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    brief: Brief = False,
    prefer: Annotated[
        str | None,
        Header(
            description="`wait=N`: answer once something has changed from what `If-None-Match` "
            "says, or without that once there is a plan; at the latest after N seconds."
        ),
    ] = None,
) -> Response:
    """The newest version of the plan."""
    wait_s = wanted_wait_s(prefer, services.settings.max_wait_s)

    def tag_of(row: RunRow) -> str:
        standing = (row.newest_version, row.newest_state, row.apply_at_iteration)
        return strong_tag(row.id, str((*standing, row.running_version, row.plan_changed_at, brief)))

    begun = await services.runs.poll(caller, run_id)

    def is_worth_telling(row: RunRow) -> bool:
        if row.newest_version is None:
            return not row.is_active
        # Whoever asks again after the run was stopped is kept waiting, or would ask all the time.
        has_stopped = begun.is_active and not row.is_active
        return has_stopped or not known.holds(tag_of(row))

    row = begun
    if wait_s:
        row = await services.waits.look_until(
            lambda: services.runs.poll(caller, run_id), is_worth_telling, wait_s
        )
    headers = {"Vary": "Prefer"}
    if wait_s:
        headers["Preference-Applied"] = f"wait={wait_s:g}"
    if row.newest_version is None:
        awaited = await run_in_threadpool(services.runs.awaited, caller, row)
        own = public_path(f"/v1/runs/{run_id}/plan")
        headers |= {"Retry-After": str(RETRY_AFTER_S), "Location": own}
        return JSONResponse(awaited.model_dump(), status_code=202, headers=headers)
    headers = tagged(tag_of(row), headers)
    if known.holds(headers["ETag"]):
        return not_modified(headers)
    read = partial(services.runs.plan, caller, run_id, row.newest_version, brief=brief)
    return json_text(await run_in_threadpool(read), headers)


@router.get(
    "/{run_id}/plan/{version}",
    response_model=PlanView,
    responses={**FOUND, **problem_responses(VersionNotFound)},
)
def get_run_plan_version(
    run_id: RunId,
    version: Version,
    caller: ReadCaller,
    services: ServicesDep,
    brief: Brief = False,
) -> Response:
    """One version of the plan, for a rank that joins or restarts."""
    return json_text(services.runs.plan(caller, run_id, version, brief=brief))


@router.get(
    "/{run_id}/plan/{version}/timeline",
    response_model=TimelineView,
    responses={**NOT_MODIFIED, **FOUND, **problem_responses(VersionNotFound)},
)
async def get_run_plan_timeline(
    request: Request,
    run_id: RunId,
    version: Version,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
) -> Response:
    """What a chart needs of a version's schedule, as of a job's: what each operation waits for, why
    each device is idle, the critical path, and memory in use over time."""
    await services.runs.poll(caller, run_id)
    headers = tagged(strong_tag(run_id, "timeline", str(version)))
    # Problem and schedule of a version never change.
    if known.names(headers["ETag"]):
        return not_modified(headers)
    work = partial(services.timelines.of_run, caller, run_id, version)
    text = await worked_out(request, services.charts, work)
    return not_modified(headers) if known.holds(headers["ETag"]) else json_text(text, headers)


@router.post(
    "/{run_id}/plan/{version}/ack",
    response_model=AckTaken,
    openapi_extra=body_of("AckRequest"),
    responses={
        **FOUND,
        **problem_responses(*BODY, VersionNotFound, VersionSuperseded, RunStopped),
    },
)
async def acknowledge_plan(
    request: Request,
    run_id: RunId,
    version: Version,
    caller: SubmitCaller,
    services: ServicesDep,
) -> AckTaken:
    """Say that a rank holds a version. It applies only once every rank does."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    ack = read_fields(AckRequest, body)
    return await run_in_threadpool(
        services.runs.acknowledge, caller, run_id, version, ack.rank, ack.iteration
    )
