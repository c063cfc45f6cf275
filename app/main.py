"""The API application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app import error_handlers
from app.broker import create_celery, publisher
from app.database import Database
from app.dependencies import Services
from app.dispatch import Dispatcher
from app.openapi import openapi_document, operation_id
from app.routes import jobs, pipeline_schedules, service
from app.services.jobs import Jobs
from app.services.pipeline_schedules import PipelineSchedules, Resolve
from app.services.submission import Submission
from app.settings import Settings
from planner.pipeline.request import resolve_request
from planner.version import __version__

DESCRIPTION = (
    "Plans pipeline schedules for training large language models: post a model and a cluster, "
    "or a measured problem, and get a verified schedule with its bound and gap. Every error is "
    "an RFC 9457 problem document."
)


def create_app(settings: Settings | None = None, resolve: Resolve = resolve_request) -> FastAPI:
    """The application; `resolve` turns a body into a spec (the planner's, unless tested apart)."""
    settings = settings or Settings()
    database = Database(settings)
    publish = publisher(create_celery(settings)) if settings.broker_url else None
    dispatcher = Dispatcher(database, settings, publish)
    submission = Submission(database, __version__, dispatcher.wake)

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
        pipeline_schedules=PipelineSchedules(submission, resolve, settings),
    )
    error_handlers.install(app)
    for router in (pipeline_schedules.router, jobs.router, service.router):
        app.include_router(router)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    return app
