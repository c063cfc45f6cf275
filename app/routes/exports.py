"""Answers as files: which formats there are, which of them an answer has, and each file."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from app.dependencies import READ_ACCESS, JobId, ReadCaller, ServicesDep
from app.errors import (
    DatabaseUnavailable,
    JobNotFound,
    NoExport,
    NoPlan,
    ResultNotReady,
    SolveFailed,
)
from app.routes.answers import Sliced
from app.routes.conditional import (
    NOT_MODIFIED,
    PreconditionDep,
    not_modified,
    strong_tag,
    tagged,
)
from app.routes.worked_out import worked_out
from app.schemas.exports import ExportList, FormatList
from app.schemas.problems import problem_responses
from app.services.exports import all_formats
from planner.export.registry import FORMATS, WITH_ADDRESS

router = APIRouter(prefix="/v1", tags=["jobs"])
OVER = (JobNotFound, NoPlan, ResultNotReady, SolveFailed, DatabaseUnavailable)
MEDIA_TYPES = sorted(
    {own.media_type.split(";")[0] for formats in FORMATS.values() for own in formats}
)
OBJECTS = ("application/json", "application/yaml")
FILES = {
    media_type: {"schema": {"type": "object" if media_type in OBJECTS else "string"}}
    for media_type in MEDIA_TYPES
}


def _address(request: Request) -> str:
    """The service's, as the client of this request knows it."""
    return str(request.base_url).rstrip("/")


@router.get("/exports", dependencies=[READ_ACCESS])
def list_export_formats() -> FormatList:
    """The formats that answers can be had in, what each carries and what it leaves out."""
    return all_formats()


@router.get("/jobs/{job_id}/exports", responses=problem_responses(*OVER))
async def list_job_exports(
    request: Request, job_id: JobId, caller: ReadCaller, services: ServicesDep
) -> ExportList:
    """The files that the job's answer can be had as, once it is over."""
    # Which there are depends on what is in the answer, all of which is read for it.
    return await worked_out(
        request,
        services.charts,
        partial(services.exports.formats, caller, job_id, _address(request)),
    )


@router.get(
    "/jobs/{job_id}/export/{format}",
    response_class=Sliced,
    responses={
        200: {
            "description": "The file.",
            "content": FILES,
        },
        **NOT_MODIFIED,
        **problem_responses(*OVER, NoExport),
    },
)
async def get_job_export(
    request: Request,
    job_id: JobId,
    caller: ReadCaller,
    services: ServicesDep,
    known: PreconditionDep,
    name: Annotated[str, Path(alias="format", description="`csv`, `chrome-trace`, …")],
) -> Response:
    """The job's answer as a file."""

    address = _address(request)
    by_address = (address,) if name in WITH_ADDRESS else ()

    def tag_of(version: str) -> str:
        return strong_tag(version, "export", name, *by_address)

    found = await worked_out(
        request,
        services.charts,
        partial(
            services.exports.file,
            caller,
            job_id,
            name,
            address,
            lambda version: known.names(tag_of(version)),
        ),
    )
    headers = tagged(tag_of(found.version))
    if found.format is None or known.holds(headers["ETag"]):
        return not_modified(headers)
    headers["Content-Disposition"] = f'attachment; filename="{found.file_name}"'
    return Sliced(found.text, media_type=found.format.media_type, headers=headers)
