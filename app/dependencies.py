"""What the routes are given."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.callers import ANYBODY, Caller
from app.database import Database
from app.errors import JobNotFound
from app.services.estimates import Estimates
from app.services.jobs import Jobs
from app.services.limits import ResolvedPipeline, ResolvedSharding, ResolvedTraining
from app.services.plan_requests import PlanRequests
from app.settings import Settings


@dataclass(frozen=True)
class Services:
    """The services of one application."""

    settings: Settings
    database: Database
    jobs: Jobs
    pipeline_schedules: PlanRequests[ResolvedPipeline]
    sharding_plans: PlanRequests[ResolvedSharding]
    training_plans: PlanRequests[ResolvedTraining]
    estimates: Estimates


def _services(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


def _job_id(job_id: str) -> str:
    try:
        return str(uuid.UUID(job_id))
    except ValueError as error:
        raise JobNotFound("A job's id is a UUID, and this is none.") from error


def _caller() -> Caller:
    return ANYBODY


ServicesDep = Annotated[Services, Depends(_services)]
CallerDep = Annotated[Caller, Depends(_caller)]
JobId = Annotated[str, Depends(_job_id)]
