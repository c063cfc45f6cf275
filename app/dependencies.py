"""What the routes are given."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from anyio import CapacityLimiter
from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.callers import Caller, Scope
from app.dashboard.files import StaticFile
from app.database import Database
from app.errors import JobNotFound, NotAllowed, NotFound
from app.json_body import BodyReader
from app.observability.context import bind
from app.observability.exposition import Exposition
from app.security.gate import Gate
from app.services.audit import AuditLog
from app.services.batches import Batches
from app.services.calibrations.calibrations import Calibrations
from app.services.diagnoses import Diagnoses
from app.services.estimates import Estimates
from app.services.events import IsAdmitted, JobEvents
from app.services.exports import Exports
from app.services.following import Follower
from app.services.jobs import Jobs
from app.services.keys import Doorkeeper
from app.services.limits import ResolvedPipeline, ResolvedSharding, ResolvedTraining
from app.services.plan_requests import PlanRequests
from app.services.purging import Purging
from app.services.runs.advice import RunAdvice
from app.services.runs.making import RunRequests
from app.services.runs.runs import Runs
from app.services.runs.telemetry import TelemetryWriter
from app.services.timelines import Timelines
from app.services.waiting import Waits
from app.services.webhooks.delivery_log import DeliveryLog
from app.settings import Settings


@dataclass(frozen=True)
class Services:
    """The services of one application."""

    settings: Settings
    database: Database
    bodies: BodyReader
    jobs: Jobs
    events: JobEvents
    follower: Follower
    pipeline_schedules: PlanRequests[ResolvedPipeline]
    sharding_plans: PlanRequests[ResolvedSharding]
    training_plans: PlanRequests[ResolvedTraining]
    batches: Batches
    batch_threads: CapacityLimiter
    runs: Runs
    run_requests: RunRequests
    run_advice: RunAdvice
    telemetry: TelemetryWriter
    waits: Waits
    calibrations: Calibrations
    timelines: Timelines
    exports: Exports
    charts: CapacityLimiter
    delivery_log: DeliveryLog
    purging: Purging
    estimates: Estimates
    diagnoses: Diagnoses
    diagnosing: CapacityLimiter
    gate: Gate
    doorkeeper: Doorkeeper
    audit_log: AuditLog
    exposition: Exposition
    dashboard_files: Mapping[str, StaticFile]


_bearer = HTTPBearer(
    auto_error=False,
    description="An API key, `lm_…`, with the scope that the operation names: `read` to look and "
    "to estimate, `submit` to post and to cancel, `admin` to purge and for the audit log, "
    "`metrics` for the figures of the whole service.",
)


# Coroutines, though nothing in them waits: others would each cost a request a trip to a thread.
async def _services(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesDep = Annotated[Services, Depends(_services)]


async def _caller(
    request: Request,
    services: ServicesDep,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    caller = await services.gate.admit(request.scope, given.credentials if given else None)
    bind(tenant=caller.tenant, caller=caller.actor)
    return caller


CallerDep = Annotated[Caller, Depends(_caller)]


async def _is_admitted(
    services: ServicesDep,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    _: CallerDep,
) -> IsAdmitted:
    if services.settings.authentication == "off" or given is None:
        return _always
    return partial(services.doorkeeper.still_opens, given.credentials)


async def _always() -> bool:
    return True


# For answers that last: whether whoever was let in would still be.
IsAdmittedDep = Annotated[IsAdmitted, Depends(_is_admitted)]


def known_id(what: str, given: str, missing: type[NotFound]) -> str:
    """The id in an address as rows have it. Raises `missing` for what is no UUID."""
    try:
        return str(uuid.UUID(given))
    except ValueError as error:
        raise missing(f"A {what}'s id is a UUID, and this is none.") from error


async def _job_id(job_id: str, _: CallerDep) -> str:
    """Asks for the key first: without one, no address tells anything."""
    known = known_id("job", job_id, JobNotFound)
    bind(job_id=known)
    return known


NEEDED_SCOPES: dict[Callable[..., Any], tuple[Scope, ...]] = {}
"""Per dependency that asks for a scope: which, or one of which. The API's description says so."""


def _with(scope: Scope) -> Callable[[Caller], Coroutine[Any, Any, Caller]]:
    async def allowed(caller: CallerDep) -> Caller:
        return _require(caller, scope)

    NEEDED_SCOPES[allowed] = (scope,)
    return allowed


def _require(caller: Caller, scope: Scope) -> Caller:
    if scope not in caller.scopes:
        raise NotAllowed(f"This needs a key with the scope `{scope}`.")
    return caller


async def _deleting(
    caller: CallerDep,
    purge: Annotated[bool, Query(description="Remove the job, which has to be over.")] = False,
) -> Caller:
    return _require(caller, Scope.ADMIN if purge else Scope.SUBMIT)


NEEDED_SCOPES[_deleting] = (Scope.SUBMIT, Scope.ADMIN)

# Who asks, if the key allows: looking and estimates; posting and cancelling; purges and the audit
# log. Every route below /v1 takes one of these.
ReadCaller = Annotated[Caller, Depends(_with(Scope.READ))]
SubmitCaller = Annotated[Caller, Depends(_with(Scope.SUBMIT))]
AdminCaller = Annotated[Caller, Depends(_with(Scope.ADMIN))]
# Who cancels a job, or with `purge` removes it.
DeletingCaller = Annotated[Caller, Depends(_deleting)]
# For `/metrics`, which `Settings.metrics_public` opens for all.
READ_ACCESS = Depends(_with(Scope.READ))
METRICS_ACCESS = Depends(_with(Scope.METRICS))
JobId = Annotated[str, Depends(_job_id)]
