"""POST /v1/training-plans."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.dependencies import ServicesDep, SubmitCaller
from app.routes.submitting import MannerDep, body_of, responses, submit
from app.schemas.jobs import Accepted

router = APIRouter(tags=["training plans"])


@router.post(
    "/v1/training-plans",
    status_code=202,
    response_model=Accepted,
    openapi_extra=body_of("TrainingPlanRequest"),
    responses=responses("what is searched"),
)
async def submit_training_plan(
    request: Request, caller: SubmitCaller, services: ServicesDep, manner: MannerDep
) -> Response:
    """Plan how a model is trained on a cluster: degrees, memory savers, schedule and sharding."""
    return await submit(request, caller, services, services.training_plans, manner)
