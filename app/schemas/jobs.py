"""What the API says about jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from app.models import SolveState
from app.root_path import public_path


class Links(BaseModel):
    """Where to go on from here."""

    self: str
    result: str
    log: str
    progress: str
    events: str


class JobView(BaseModel):
    """A job without its result. Light enough to be asked for once a second."""

    id: str
    kind: str
    name: str | None
    model: str | None = Field(
        description="In a few words what is planned: a preset's name, or sizes. Null of jobs that "
        "older versions made."
    )
    tags: list[str]
    priority: int
    state: SolveState
    cancel_requested: bool = Field(
        description="The job was cancelled and its solver, which had only this job, is stopping."
    )
    cache: str = Field(description="`miss`, `joined` (a solve in flight) or `hit` (a stored one).")
    engine: str
    queue: str = Field(description="`short` or `long`, by its time limit.")
    queue_position: int | None = Field(description="1 = next; null unless queued.")
    phase: str | None
    time_limit_s: float
    spent_s: float = Field(
        description="Solver time of all attempts, up to the worker's last sign of life."
    )
    best_makespan_ns: int | None = Field(
        description="Of a pipeline schedule: the best objective so far, makespan or, if asked for, "
        "steady span."
    )
    best_step_time_ns: int | None = Field(
        description="Of a training plan: the predicted step time of the best one so far."
    )
    lower_bound_ns: int | None = Field(
        description="Of a pipeline schedule or a training plan: what none can beat."
    )
    best_objective_bytes: int | None = Field(
        description="Of a sharding plan: the best objective so far, rounded up."
    )
    lower_bound_bytes: int | None = Field(
        description="Of a sharding plan: what none can beat, rounded down."
    )
    gap: float | None = Field(description="(best - bound) / best; null until both are known.")
    progress_at: datetime | None = Field(description="When a plan or bound last improved.")
    heartbeat_age_s: float | None = Field(description="Since the worker's last sign of life.")
    attempts: int = Field(description="How often a worker has begun it.")
    crashes: int
    losses: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    links: Links


class JobPage(BaseModel):
    """Jobs, newest first; `next_cursor` is null on the last page."""

    jobs: list[JobView]
    next_cursor: str | None


class ProgressStep(BaseModel):
    """A step of a solve: a change of its state, a new phase, or a better plan or bound."""

    seq: int
    at: datetime
    state: SolveState
    attempt: int
    phase: str | None
    spent_s: float = Field(description="Solver time of all attempts until then.")
    best_makespan_ns: int | None
    best_step_time_ns: int | None
    lower_bound_ns: int | None
    best_objective_bytes: int | None
    lower_bound_bytes: int | None
    gap: float | None
    detail: str | None = Field(description="Why it went back to the queue, for people.")


class ProgressPage(BaseModel):
    """Steps from an offset; ask on from `next_offset`."""

    steps: list[ProgressStep]
    next_offset: int
    over: bool = Field(description="No step will follow.")


class LogPage(BaseModel):
    """Lines of a solver's log from an offset; ask on from `next_offset`."""

    lines: list[str]
    next_offset: int
    over: bool = Field(description="No line will follow.")


class Accepted(BaseModel):
    """A job that was taken on and is not over yet."""

    id: str
    state: SolveState
    cache: str
    queue_position: int | None
    enqueued_at: datetime
    links: Links


class JobOver(BaseModel):
    """A job that is over by the time its request is answered, with its result or its error."""

    id: str
    state: SolveState
    cache: str
    links: Links
    result: dict[str, Any] | None = Field(description="As at the address of the result.")
    error: dict[str, Any] | None = Field(
        default=None, description="`code` and `detail` of a solve that failed."
    )


class Preview(RootModel[dict[str, Any]]):
    """What a request resolves to."""

    # Not an answer about a job.
    model_config = ConfigDict(json_schema_extra={"not": {"required": ["state"]}})


def links_of(job_id: str) -> Links:
    """The addresses of one job."""
    address = public_path(f"/v1/jobs/{job_id}")
    parts = {part: f"{address}/{part}" for part in ("result", "log", "progress", "events")}
    return Links(self=address, **parts)
