"""GET /v1/jobs/{id}/webhooks."""

from __future__ import annotations

from fastapi import APIRouter

from app.dependencies import JobId, ReadCaller, ServicesDep
from app.errors import DatabaseUnavailable, JobNotFound
from app.schemas.problems import problem_responses
from app.schemas.webhooks import WebhookList

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("/{job_id}/webhooks", responses=problem_responses(JobNotFound, DatabaseUnavailable))
def list_job_webhooks(job_id: JobId, caller: ReadCaller, services: ServicesDep) -> WebhookList:
    """Who is told when the job is over, and how each try to tell went."""
    return services.delivery_log.of_job(caller, job_id)
