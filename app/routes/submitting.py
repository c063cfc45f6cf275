"""What the routes that take a request for a plan have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from app.callers import Caller
from app.dependencies import Services
from app.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    IdempotencyKeyReused,
    InvalidRequest,
    LimitExceeded,
    MalformedBody,
    TooManyQueued,
    UnsupportedMediaType,
)
from app.routes.answers import submitted
from app.schemas.jobs import JobOver, Preview
from app.schemas.problems import problem_responses
from app.services.jobs import JobOutcome
from app.services.plan_requests import PlanRequests
from app.services.submission import Made
from app.services.waiting import wanted_wait_s


@dataclass(frozen=True)
class Manner:
    """How a request is to be answered."""

    validate_only: bool
    fresh: bool
    prefer: str | None
    idempotency_key: str | None


IdempotencyKeyHeader = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="Sent again with the same body, the request makes nothing new: the answer is "
        "about what it made the first time.",
    ),
]


def _manner(
    validate_only: Annotated[bool, Query(description="Resolve and bound only.")] = False,
    cache_control: Annotated[
        str | None, Header(description="`no-cache`: solve afresh, whatever is stored.")
    ] = None,
    prefer: Annotated[
        str | None,
        Header(description="`wait=N`: answer within N seconds, or as soon as it is over."),
    ] = None,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Manner:
    fresh = "no-cache" in (cache_control or "").lower()
    return Manner(validate_only, fresh, prefer, idempotency_key)


MannerDep = Annotated[Manner, Depends(_manner)]


def body_of(schema: str) -> dict[str, Any]:
    """What the OpenAPI document says about a body that the route reads itself."""
    reference = {"$ref": f"#/components/schemas/{schema}"}
    content = {"application/json": {"schema": reference}}
    return {"requestBody": {"required": True, "content": content}}


def responses(preview: str) -> dict[int | str, dict[str, Any]]:
    """The answers of such a route; `preview` is what `validate_only` returns."""
    return {
        200: {
            "model": JobOver | Preview,
            "description": "Over already (a stored result, or the wait sufficed): `id`, `state`, "
            f"`cache`, `links` and `result` (or `error`). With `validate_only`: {preview}.",
        },
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
    }


async def submit(
    request: Request,
    caller: Caller,
    services: Services,
    plans: PlanRequests[Any],
    manner: Manner,
) -> Response:
    """Make a job of a request, and wait for it if that is asked for."""
    body = await services.bodies.json_object(request, services.settings.max_body_bytes)
    if manner.validate_only:
        return JSONResponse(await run_in_threadpool(plans.preview, caller, body))
    jobs = services.jobs

    def take_on() -> tuple[Made, JobOutcome]:
        made = plans.submit(
            caller, body, fresh=manner.fresh, idempotency_key=manner.idempotency_key
        )
        return made, jobs.outcome(caller, made.id)

    made, outcome = await run_in_threadpool(take_on)
    wait_s = wanted_wait_s(manner.prefer, services.settings.max_wait_s)
    if wait_s and not outcome.view.state.is_over:
        await services.waits.wait_until(
            lambda: run_in_threadpool(jobs.is_over, caller, made.id), wait_s
        )
        outcome = await run_in_threadpool(jobs.outcome, caller, made.id)
    return replayed(submitted(outcome, waited_s=wait_s), made)


def replayed(response: Response, made: Made) -> Response:
    """The same response; it says so where an earlier request made what it is about."""
    if made.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return response
