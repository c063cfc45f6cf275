"""The API application."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI

from app import error_handlers
from app.broker import create_celery, publisher
from app.compression import compress
from app.dashboard.files import STATIC, read_static_files
from app.database import Database
from app.dependencies import METRICS_ACCESS, Services
from app.dispatch import Dispatcher
from app.json_body import BodyReader
from app.models import PIPELINE, SHARDING, TRAINING
from app.observability.exposition import Exposition
from app.observability.http import RequestObserver
from app.observability.logs import configure_logging
from app.observability.rows import RowsCollector
from app.observability.telemetry import telemetry_config
from app.openapi.document import openapi_document, operation_id
from app.root_path import BelowRootPath
from app.routes import (
    audit,
    batches,
    calibrations,
    dashboard,
    diagnoses,
    estimates,
    events,
    exports,
    jobs,
    metrics,
    pipeline_schedules,
    run_plans,
    runs,
    service,
    sharding_plans,
    timelines,
    training_plans,
    webhooks,
)
from app.security.gate import Gate
from app.security.guard import protect
from app.security.rate_limit import RateLimiter
from app.services.audit import AuditLog
from app.services.batches import Batches
from app.services.calibrations.calibrations import Calibrations
from app.services.calibrations.use import CalibrationsInUse
from app.services.diagnoses import Diagnoses
from app.services.estimates import Estimates
from app.services.events import JobEvents
from app.services.exports import Exports
from app.services.following import Follower
from app.services.jobs import Jobs
from app.services.keys import Doorkeeper
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
from app.services.purging import Purging
from app.services.runs.advice import RunAdvice
from app.services.runs.making import RunRequests
from app.services.runs.runs import Runs
from app.services.runs.telemetry import TelemetryWriter
from app.services.submission import Submission
from app.services.timelines import Timelines
from app.services.waiting import Waits
from app.services.webhooks.delivery_log import DeliveryLog
from app.services.webhooks.notifier import Notifier
from app.services.webhooks.targets import WebhookTargets
from app.settings import Settings
from app.termination import on_termination
from planner.estimates.registry import ESTIMATES, Estimate
from planner.pipeline import request as pipeline_request
from planner.sharding import request as sharding_request
from planner.training import request as training_request
from planner.version import __version__

Body = Mapping[str, Any]
BATCHES_READ_AT_ONCE = 2
"""By one process: a thousand requests take seconds of a core to resolve, and must not take all
threads from others."""
CHARTS_AT_ONCE = 2
"""Timelines and exports that one process works out: of the largest schedules each takes seconds of
a core and a good hundred megabytes."""
DIAGNOSES_AT_ONCE = 2
"""By one process: each takes up to about a second of a core."""

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
    dashboard_folder: Path = STATIC,
) -> FastAPI:
    """The application; bodies are turned into specs or answered by the planner, and the dashboard
    is that of the installation, unless tested apart."""
    # A server calls this without arguments; it has configured its own logs by now.
    is_served = settings is None
    if settings is None:
        settings = Settings()
        configure_logging(settings)
    database = Database(settings)
    publish = publisher(create_celery(settings)) if settings.broker_url else None
    dispatcher = Dispatcher(database, settings, publish)
    notifier = Notifier(database, settings)
    submission = Submission(database, settings, __version__, dispatcher.wake)
    targets = WebhookTargets(settings)
    jobs_service = Jobs(database)
    runs_service = Runs(database)
    follower, waits = Follower(database, settings), Waits()
    in_use = CalibrationsInUse(database)
    pipelines = PlanRequests(
        PIPELINE, submission, resolve_pipeline, PipelineLimits(settings), targets, in_use
    )
    shardings = PlanRequests(
        SHARDING, submission, resolve_sharding, ShardingLimits(settings), targets, in_use
    )
    trainings = PlanRequests(
        TRAINING, submission, resolve_training, TrainingLimits(settings), targets, in_use
    )
    doorkeeper, limiter = Doorkeeper(database), RateLimiter(settings)

    def end_long_requests() -> None:
        follower.close()
        waits.end()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        dispatcher.start()
        notifier.start()
        limiter.start()
        with on_termination(end_long_requests):
            yield
        await follower.stop()
        dispatcher.stop()
        notifier.stop()
        limiter.stop()
        doorkeeper.close()
        database.dispose()

    app = FastAPI(
        title="Loadmaster",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
        telemetry=telemetry_config(settings),
    )
    app.state.services = Services(
        settings=settings,
        database=database,
        bodies=BodyReader(settings.max_body_values),
        jobs=jobs_service,
        events=JobEvents(database),
        follower=follower,
        pipeline_schedules=pipelines,
        sharding_plans=shardings,
        training_plans=trainings,
        batches=Batches(
            database,
            settings,
            submission,
            jobs_service,
            {PIPELINE: pipelines, SHARDING: shardings, TRAINING: trainings},
        ),
        batch_threads=CapacityLimiter(BATCHES_READ_AT_ONCE),
        runs=runs_service,
        run_requests=RunRequests(database, settings, submission, pipelines),
        run_advice=RunAdvice(database),
        telemetry=TelemetryWriter(database),
        waits=waits,
        calibrations=Calibrations(database, submission),
        timelines=Timelines(database, jobs_service, runs_service),
        exports=Exports(database, jobs_service),
        charts=CapacityLimiter(CHARTS_AT_ONCE),
        delivery_log=DeliveryLog(database),
        purging=Purging(database),
        estimates=Estimates(estimate, EstimateLimits(settings), in_use),
        diagnoses=Diagnoses(settings),
        diagnosing=CapacityLimiter(DIAGNOSES_AT_ONCE),
        gate=Gate(settings, doorkeeper, limiter),
        doorkeeper=doorkeeper,
        audit_log=AuditLog(database),
        exposition=Exposition(RowsCollector(database, __version__)),
        dashboard_files=read_static_files(dashboard_folder),
    )
    error_handlers.install(app)
    # Routes are tried in turn: first what is asked for most.
    for router in (
        jobs.router,
        runs.router,
        run_plans.router,
        events.router,
        pipeline_schedules.router,
        sharding_plans.router,
        training_plans.router,
        timelines.router,
        exports.router,
        estimates.router,
        diagnoses.router,
        calibrations.router,
        batches.router,
        webhooks.router,
        service.router,
        audit.router,
        dashboard.router,
    ):
        app.include_router(router)
    app.include_router(
        metrics.router, dependencies=[] if settings.metrics_public else [METRICS_ACCESS]
    )
    protect(app, settings)
    compress(app)
    # The last one added is the outermost: it sees what all others answer.
    app.add_middleware(RequestObserver)
    app.add_middleware(BelowRootPath, prefix=settings.root_path)
    asks_for_keys = settings.authentication == "keys"
    app.openapi = lambda: openapi_document(app, asks_for_keys=asks_for_keys)  # type: ignore[method-assign]
    if is_served:
        # What is there now stays until the end. To look through it for what is no longer used takes
        # a tenth of a second and more, during which nobody is served.
        gc.collect()
        gc.freeze()
    return app
