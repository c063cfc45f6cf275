"""Batches: many requests in one body, and how their answers compare."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.models import SolveState
from app.root_path import public_path
from app.schemas.jobs import Links
from app.schemas.requests import JobFields

BatchKind = Literal["pipeline", "sharding", "training"]


class BatchEntry(BaseModel):
    """One request of a batch."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: BatchKind
    request: dict[str, Any] = Field(
        description="What would be posted to `/v1/pipeline-schedules`, `/v1/sharding-plans` or "
        "`/v1/training-plans`."
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Of the job, unless its request says another.",
    )


class BatchRequest(JobFields):
    """`name` is the batch's. `priority` and `webhook` are those of jobs whose request has none,
    and `tags` are added to those of every job."""

    requests: list[BatchEntry] = Field(min_length=1)


class BatchLinks(BaseModel):
    """Where to go on from here."""

    self: str


class Standing(BaseModel):
    """How far a job has got, so that it can be compared with others of its kind."""

    objective: int | None = Field(
        description="Of the best plan so far: ns of a schedule or a step, bytes of a sharding plan."
    )
    bound: int | None = Field(description="What no plan can beat, in the same unit.")
    gap: float | None = Field(description="(objective - bound) / objective.")


class BatchJobView(Standing):
    """A row of the comparison."""

    position: int = Field(description="Where it stood among the requests, from 0.")
    job_id: str
    name: str | None
    kind: str
    state: SolveState
    cache: str
    engine: str
    ratio: float | None = Field(description="Its objective over the best of its kind: 1 = best.")
    links: Links


class BestOfKind(Standing):
    """The job with the best plan of its kind, the first one of those that are equal."""

    position: int
    job_id: str
    name: str | None


class BatchView(BaseModel):
    """A batch: how many of its jobs are in which state, and one comparison of all."""

    id: str
    name: str | None
    created_at: datetime
    over: bool = Field(description="No job will change any more.")
    jobs: int
    states: dict[SolveState, int]
    best: dict[str, BestOfKind] = Field(description="By kind.")
    comparison: list[BatchJobView] = Field(description="In the order of the requests.")
    links: BatchLinks


class BatchAccepted(BaseModel):
    """A batch that was taken on."""

    id: str
    jobs: int
    cache: dict[str, int] = Field(description="How many jobs are `miss`, `joined` and `hit`.")
    states: dict[SolveState, int]
    links: BatchLinks


class BatchSummary(BaseModel):
    """A batch as the listing shows it."""

    id: str
    name: str | None
    created_at: datetime
    jobs: int
    over: int = Field(description="How many of them are over.")
    links: BatchLinks


class BatchPage(BaseModel):
    """Batches, newest first; `next_cursor` is null on the last page."""

    batches: list[BatchSummary]
    next_cursor: str | None


class BatchPreviewEntry(BaseModel):
    """A request of a batch that would be taken on."""

    position: int
    kind: str
    name: str | None
    engine: str
    operations: int
    time_limit_s: float


class BatchPreview(BaseModel):
    """What `validate_only` answers."""

    requests: list[BatchPreviewEntry]


def batch_links(batch_id: str) -> BatchLinks:
    """The addresses of one batch."""
    return BatchLinks(self=public_path(f"/v1/batches/{batch_id}"))
