"""POST /v1/pipeline-schedules."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.dependencies import ServicesDep
from app.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    InvalidRequest,
    LimitExceeded,
    MalformedBody,
    UnsupportedMediaType,
)
from app.json_body import read_json_object
from app.routes.answers import submitted
from app.schemas.jobs import Accepted
from app.schemas.problems import problem_responses
from app.services.waiting import wait_until, wanted_wait_s

router = APIRouter(tags=["pipeline schedules"])

REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/PipelineScheduleRequest"}}
    },
}


@router.post(
    "/v1/pipeline-schedules",
    status_code=202,
    response_model=Accepted,
    openapi_extra={"requestBody": REQUEST_BODY},
    responses={
        200: {
            "description": "Over already (a stored result, or the wait sufficed): `id`, `state`, "
            "`cache`, `links` and `result` (or `error`). With `validate_only`: the resolved "
            "problem and its bounds."
        },
        **problem_responses(
            MalformedBody,
            BodyTooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            LimitExceeded,
            DatabaseUnavailable,
        ),
    },
)
async def submit_pipeline_schedule(
    request: Request,
    services: ServicesDep,
    validate_only: Annotated[bool, Query(description="Resolve and bound only.")] = False,
    cache_control: Annotated[
        str | None, Header(description="`no-cache`: solve afresh, whatever is stored.")
    ] = None,
    prefer: Annotated[
        str | None,
        Header(description="`wait=N`: answer within N seconds, or as soon as it is over."),
    ] = None,
) -> Response:
    """Plan a pipeline schedule."""
    body = await read_json_object(request, services.settings.max_body_bytes)
    schedules, jobs = services.pipeline_schedules, services.jobs
    if validate_only:
        return JSONResponse(await run_in_threadpool(schedules.preview, body))
    fresh = "no-cache" in (cache_control or "").lower()
    job_id = await run_in_threadpool(schedules.submit, body, fresh=fresh)
    wait_s = wanted_wait_s(prefer, services.settings.max_wait_s)
    await wait_until(lambda: run_in_threadpool(jobs.is_over, job_id), wait_s)
    return submitted(await run_in_threadpool(jobs.outcome, job_id), waited_s=wait_s)
