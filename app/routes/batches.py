"""Batches: post many requests at once, compare their answers, cancel what is left."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from app.dependencies import CallerDep, ReadCaller, ServicesDep, SubmitCaller, known_id
from app.errors import (
    BatchNotFound,
    BodyTooLarge,
    DatabaseUnavailable,
    IdempotencyKeyReused,
    InvalidRequest,
    LimitExceeded,
    MalformedBody,
    TooManyQueued,
    UnsupportedMediaType,
)
from app.routes.conditional import (
    NOT_MODIFIED,
    PreconditionDep,
    not_modified,
    strong_tag,
    tagged,
)
from app.routes.submitting import MannerDep, body_of, replayed
from app.schemas.batches import BatchAccepted, BatchPage, BatchPreview, BatchView
from app.schemas.problems import problem_responses

router = APIRouter(prefix="/v1/batches", tags=["batches"])

FOUND = problem_responses(BatchNotFound, DatabaseUnavailable)


async def _batch_id(batch_id: str, _: CallerDep) -> str:
    return known_id("batch", batch_id, BatchNotFound)


BatchId = Annotated[str, Depends(_batch_id)]


@router.post(
    "",
    status_code=202,
    response_model=BatchAccepted,
    openapi_extra=body_of("BatchRequest"),
    responses={
        200: {"model": BatchPreview, "description": "With `validate_only`: what would be made."},
        **problem_responses(
            MalformedBody,
            BodyTooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            LimitExceeded,
            IdempotencyKeyReused,
            TooManyQueued,
            DatabaseUnavailable,
        ),
    },
)
async def submit_batch(
    request: Request, caller: SubmitCaller, services: ServicesDep, manner: MannerDep
) -> Response:
    """Make a job of each of many requests, or, if one of them is wrong, of none."""
    body = await services.bodies.json_object(request, services.settings.max_batch_body_bytes)
    batches, threads = services.batches, services.batch_threads
    if manner.validate_only:
        preview = await run_sync(partial(batches.preview, caller, body), limiter=threads)
        return JSONResponse(preview.model_dump())
    posted = partial(
        batches.submit,
        caller,
        body,
        fresh=manner.fresh,
        idempotency_key=manner.idempotency_key,
    )
    made = await run_sync(posted, limiter=threads)
    accepted = await run_sync(batches.accepted, caller, made.id)
    response = JSONResponse(
        accepted.model_dump(mode="json"),
        status_code=202,
        headers={"Location": accepted.links.self},
    )
    return replayed(response, made)


@router.get("", responses=problem_responses(InvalidRequest, DatabaseUnavailable))
def list_batches(
    caller: ReadCaller,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> BatchPage:
    """Batches, newest first."""
    return services.batches.page(caller, cursor, limit)


@router.get("/{batch_id}", response_model=BatchView, responses={**NOT_MODIFIED, **FOUND})
def get_batch(
    batch_id: BatchId, caller: ReadCaller, services: ServicesDep, known: PreconditionDep
) -> Response:
    """How the jobs of a batch are getting on, and how their answers compare."""
    view = services.batches.view(caller, batch_id)
    text = view.model_dump_json()
    tag = strong_tag(text)
    headers = tagged(tag, None if view.over else {"Retry-After": "2"})
    if known.holds(tag):
        return not_modified(headers)
    return Response(text, media_type="application/json", headers=headers)


@router.delete("/{batch_id}", responses=FOUND)
def cancel_batch(batch_id: BatchId, caller: SubmitCaller, services: ServicesDep) -> BatchView:
    """Cancel those of its jobs that are not over, as cancelling each of them would."""
    return services.batches.cancel(caller, batch_id)
