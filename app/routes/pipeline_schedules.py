"""POST /v1/pipeline-schedules."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.dependencies import ServicesDep, SubmitCaller
from app.routes.submitting import MannerDep, body_of, responses, submit
from app.schemas.jobs import Accepted

router = APIRouter(tags=["pipeline schedules"])


@router.post(
    "/v1/pipeline-schedules",
    status_code=202,
    response_model=Accepted,
    openapi_extra=body_of("PipelineScheduleRequest"),
    responses=responses("the resolved problem and its bounds"),
)
async def submit_pipeline_schedule(
    request: Request, caller: SubmitCaller, services: ServicesDep, manner: MannerDep
) -> Response:
    """Plan a pipeline schedule."""
    return await submit(request, caller, services, services.pipeline_schedules, manner)
