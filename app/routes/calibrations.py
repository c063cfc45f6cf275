"""Calibrations of the cost model: fitted to runs, versioned by kind of GPU."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.dependencies import ReadCaller, ServicesDep, SubmitCaller
from app.errors import (
    BodyTooLarge,
    CalibrationNotFound,
    DatabaseUnavailable,
    IdempotencyKeyReused,
    InvalidRequest,
    MalformedBody,
    UnsupportedMediaType,
)
from app.routes.answers import json_text
from app.routes.submitting import IdempotencyKeyHeader, body_of, replayed
from app.routes.worked_out import worked_out
from app.schemas.calibrations import (
    CalibrationList,
    CalibrationVersions,
    CalibrationView,
    FitView,
)
from app.schemas.problems import problem_responses

router = APIRouter(prefix="/v1/calibrations", tags=["calibrations"])

FOUND = problem_responses(CalibrationNotFound, DatabaseUnavailable)
Gpu = Annotated[str, Path(min_length=1, max_length=100, description="Such as `H100-80GB`.")]
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.post(
    "",
    status_code=201,
    response_model=CalibrationView,
    openapi_extra=body_of("CalibrationRequest"),
    responses={
        200: {"model": FitView, "description": "With `validate_only`: the fit, which is not kept."},
        **problem_responses(
            MalformedBody,
            BodyTooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            IdempotencyKeyReused,
            DatabaseUnavailable,
        ),
    },
)
async def fit_calibration(
    request: Request,
    caller: SubmitCaller,
    services: ServicesDep,
    validate_only: Annotated[bool, Query(description="Fit, and keep nothing.")] = False,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Fit the cost model's factors to what runs measured: a new version for their kind of GPU."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    calibrations = services.calibrations
    if validate_only:
        look = partial(calibrations.preview, caller, body)
        preview = await worked_out(request, services.charts, look)
        return json_text(preview.model_dump_json())
    work = partial(calibrations.fit, caller, body, idempotency_key)
    made = await worked_out(request, services.charts, work)
    view = await run_in_threadpool(calibrations.view, caller, made.id)
    response = json_text(view.model_dump_json(), {"Location": view.links.self})
    response.status_code = 201
    return replayed(response, made)


@router.get("", responses=problem_responses(DatabaseUnavailable))
def list_calibrations(caller: ReadCaller, services: ServicesDep) -> CalibrationList:
    """The newest calibration of each kind of GPU."""
    return services.calibrations.newest(caller)


@router.get("/{gpu}", responses=FOUND)
def list_calibration_versions(
    gpu: Gpu, caller: ReadCaller, services: ServicesDep
) -> CalibrationVersions:
    """The versions of a kind of GPU, newest first."""
    return services.calibrations.versions(caller, gpu)


@router.get("/{gpu}/{version}", responses=FOUND)
def get_calibration(
    gpu: Gpu, version: Version, caller: ReadCaller, services: ServicesDep
) -> CalibrationView:
    """A version: its factors, what they rest on, and errors before and after."""
    return services.calibrations.version(caller, gpu, version)
