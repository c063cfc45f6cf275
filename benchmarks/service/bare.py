"""A bare FastAPI route that reads a job with the ORM: what the status poll is compared with."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import select

from app.database import Database
from app.models import Job, Solve
from app.settings import Settings


class View(BaseModel):
    """A few columns of job and solve."""

    id: str
    name: str | None
    state: str
    created_at: int
    best_objective: int | None
    lower_bound: int | None


def create_app() -> FastAPI:
    """The application, without any middleware, with the database of the service."""
    database = Database(Settings())
    app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})

    @app.get("/v1/jobs/{job_id}")
    def get_job(job_id: str) -> View:
        with database.reading() as session:
            statement = select(Job, Solve).join(Solve, Job.solve_id == Solve.id)
            job, solve = session.execute(statement.where(Job.id == job_id)).one()
        return View(
            id=job.id,
            name=job.name,
            state=solve.state,
            created_at=job.created_at,
            best_objective=solve.best_objective,
            lower_bound=solve.lower_bound,
        )

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ok"}

    return app
