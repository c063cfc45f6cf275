"""The API application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from app import error_handlers
from app.broker import create_celery, publisher
from app.database import Database
from app.dependencies import Services
from app.dispatch import Dispatcher
from app.openapi import openapi_document, operation_id
from app.routes import (
    estimates,
    jobs,
    pipeline_schedules,
    service,
    sharding_plans,
    training_plans,
)
from app.services.estimates import Estimates
from app.services.jobs import Jobs
from app.services.limits import (
    EstimateLimits,
    PipelineLimits,
    ResolvedPipeline,
    ResolvedSharding,
    ResolvedTraining,
    ShardingLimits,
    TrainingLimits,
)
from app.services.plan_requests import PlanRequests
from app.services.submission import Submission
from app.settings import Settings
from planner.estimates.registry import ESTIMATES, Estimate
from planner.pipeline import request as pipeline_request
from planner.sharding import request as sharding_request
from planner.training import request as training_request
from planner.version import __version__

Body = Mapping[str, Any]

DESCRIPTION = (
    "Plans the training of large language models: post a model and a cluster, or a measured "
    "problem, and get a verified pipeline schedule; post a transformer or a graph and a group of "
    "devices, and get a sharding plan; post a model, a cluster and a batch, and get a training "
    "plan; each with its bound and gap. Estimates of memory, step time and the like are answered "
    "at once. Every error is an RFC 9457 problem document."
)


def create_app(
    settings: Settings | None = None,
    resolve_pipeline: Callable[[Body], ResolvedPipeline] = pipeline_request.resolve_request,
    resolve_sharding: Callable[[Body], ResolvedSharding] = sharding_request.resolve_request,
    resolve_training: Callable[[Body], ResolvedTraining] = training_request.resolve_request,
    estimate: Mapping[str, Estimate] = ESTIMATES,
) -> FastAPI:
    """The application; bodies are turned into specs or answered by the planner, unless tested
    apart."""
    settings = settings or Settings()
    database = Database(settings)
    publish = publisher(create_celery(settings)) if settings.broker_url else None
    dispatcher = Dispatcher(database, settings, publish)
    submission = Submission(database, settings, __version__, dispatcher.wake)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        dispatcher.start()
        yield
        dispatcher.stop()
        database.dispose()

    app = FastAPI(
        title="Loadmaster",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.services = Services(
        settings=settings,
        database=database,
        jobs=Jobs(database),
        pipeline_schedules=PlanRequests(submission, resolve_pipeline, PipelineLimits(settings)),
        sharding_plans=PlanRequests(submission, resolve_sharding, ShardingLimits(settings)),
        training_plans=PlanRequests(submission, resolve_training, TrainingLimits(settings)),
        estimates=Estimates(estimate, EstimateLimits(settings)),
    )
    error_handlers.install(app)
    for router in (
        pipeline_schedules.router,
        sharding_plans.router,
        training_plans.router,
        estimates.router,
        jobs.router,
        service.router,
    ):
        app.include_router(router)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    return app
