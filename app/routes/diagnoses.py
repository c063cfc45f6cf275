"""POST /v1/diagnoses: symptoms and numbers in, causes and remedies out, answered at once."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.dependencies import READ_ACCESS, ServicesDep
from app.errors import (
    BodyTooLarge,
    InvalidRequest,
    LimitExceeded,
    MalformedBody,
    UnsupportedMediaType,
)
from app.routes.submitting import body_of
from app.routes.worked_out import worked_out
from app.schemas.diagnoses import DiagnosisView
from app.schemas.problems import problem_responses
from planner.diagnoses.documents import DiagnosisDocument

router = APIRouter(tags=["diagnoses"], dependencies=[READ_ACCESS])


@router.post(
    "/v1/diagnoses",
    openapi_extra=body_of(DiagnosisDocument.__name__),
    response_model=DiagnosisView,
    responses=problem_responses(
        MalformedBody, BodyTooLarge, UnsupportedMediaType, InvalidRequest, LimitExceeded
    ),
)
async def diagnose(request: Request, services: ServicesDep) -> Response:
    """Likely causes of symptoms, ranked by what the numbers support, each with the commands that
    check it and the remedy with its predicted effect."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    work = partial(services.diagnoses.answer, body)
    return JSONResponse(await worked_out(request, services.diagnosing, work))
