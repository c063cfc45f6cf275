"""Health, examples and presets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from app.dependencies import READ_ACCESS, ServicesDep
from app.errors import RETRY_AFTER_S
from app.schemas.health import Liveness, Readiness
from app.schemas.presets import Presets
from app.services.examples import ExampleKind, example_bodies
from app.services.health import readiness
from app.services.presets import known_presets

router = APIRouter(tags=["service"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def get_liveness() -> Liveness:
    """The process runs."""
    # A coroutine, so that it waits for no thread.
    return Liveness()


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz", responses={503: {"model": Readiness, "description": "No database, or no tables."}}
)
def get_readiness(services: ServicesDep, response: Response) -> Readiness:
    """Whether requests can be taken (`ok`, or `degraded` while the broker is away)."""
    ready = readiness(services.database, services.settings)
    if ready.status == "down":
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return ready


@router.get("/v1/examples", dependencies=[READ_ACCESS])
def list_examples(
    kind: Annotated[
        ExampleKind,
        Query(description="For pipeline schedules, for sharding plans or for training plans."),
    ] = "pipeline",
) -> list[dict[str, Any]]:
    """Bodies that can be posted as they are to `/v1/pipeline-schedules`, `/v1/sharding-plans` or
    `/v1/training-plans`."""
    return example_bodies(kind)


@router.get("/v1/presets", dependencies=[READ_ACCESS])
def list_presets() -> Presets:
    """The models and GPUs that requests may name, with the fields that each name stands for."""
    return known_presets()
