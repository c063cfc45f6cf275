"""GET /v1/audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.dependencies import AdminCaller, ServicesDep
from app.errors import DatabaseUnavailable, InvalidRequest
from app.schemas.audit import AuditPage
from app.schemas.problems import problem_responses

router = APIRouter(tags=["service"])


@router.get("/v1/audit", responses=problem_responses(InvalidRequest, DatabaseUnavailable))
def list_audit_entries(
    caller: AdminCaller,
    services: ServicesDep,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> AuditPage:
    """What was done in the caller's tenant with keys, limits and jobs, newest first."""
    return services.audit_log.page(caller, cursor, limit)
