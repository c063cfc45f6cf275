"""The timeline of a pipeline schedule."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.dependencies import JobId, ReadCaller, ServicesDep
from app.errors import (
    DatabaseUnavailable,
    InvalidRequest,
    JobNotFound,
    NoPlan,
    NoTimeline,
    ResultNotReady,
    SolveFailed,
)
from app.routes.answers import json_text
from app.routes.conditional import (
    NOT_MODIFIED,
    PreconditionDep,
    not_modified,
    strong_tag,
    tagged,
)
from app.routes.worked_out import worked_out
from app.schemas.problems import problem_responses
from app.schemas.timelines import TimelineView
from app.services.timelines import Chosen

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

Name = Annotated[str | None, Query(min_length=1, max_length=200)]


@router.get(
    "/{job_id}/timeline",
    response_model=TimelineView,
    responses={
        **NOT_MODIFIED,
        **problem_responses(
            InvalidRequest,
            JobNotFound,
            NoPlan,
            NoTimeline,
            ResultNotReady,
            SolveFailed,
            DatabaseUnavailable,
        ),
    },
)
async def get_job_timeline(
    request: Request,
    job_id: JobId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    schedule: Name = None,
    placement: Name = None,
) -> Response:
    """What a chart needs of the job's pipeline schedule: what each operation waits for, why each
    device is idle, the critical path, and memory in use over time.

    With `schedule` and `placement`, the schedule of that row of the result's `comparison`.
    """
    chosen = Chosen(schedule, placement)

    def tag_of(version: str) -> str:
        return strong_tag(version, "timeline", repr(chosen))

    found = await worked_out(
        request,
        services.charts,
        partial(
            services.timelines.timeline,
            caller,
            job_id,
            chosen,
            lambda version: known.names(tag_of(version)),
        ),
    )
    headers = tagged(tag_of(found.version))
    if found.text is None or known.holds(headers["ETag"]):
        return not_modified(headers)
    return json_text(found.text, headers)
