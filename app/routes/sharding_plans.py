"""POST /v1/sharding-plans."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.dependencies import ServicesDep, SubmitCaller
from app.routes.submitting import MannerDep, body_of, responses, submit
from app.schemas.jobs import Accepted

router = APIRouter(tags=["sharding plans"])


@router.post(
    "/v1/sharding-plans",
    status_code=202,
    response_model=Accepted,
    openapi_extra=body_of("ShardingPlanRequest"),
    responses=responses("the resolved graph and its size"),
)
async def submit_sharding_plan(
    request: Request, caller: SubmitCaller, services: ServicesDep, manner: MannerDep
) -> Response:
    """Plan how each operator of a graph is split over the devices."""
    return await submit(request, caller, services, services.sharding_plans, manner)
