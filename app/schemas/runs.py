"""Training runs as they are posted and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.models import RunStatus, SolveState
from app.schemas.requests import Tag
from planner.documents import Document, WholeNumber
from planner.following.settings import FollowSettings
from planner.following.solve_records import Reason
from planner.following.telemetry import IterationTelemetry, TelemetryBatch
from planner.following.versions import VersionState
from planner.pipeline.request import PipelineRequest

MOST_TAGS = 15
"""Jobs of a run have one more, which names the run."""
Text200 = Annotated[str, Field(min_length=1, max_length=200)]


class OperationFields(BaseModel):
    """An operation of a schedule, as results write it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    op: Annotated[str, Field(pattern=r"^[FBWOR]$")]
    stage: Annotated[int, Field(ge=0)]
    micro_batch: Annotated[int, Field(ge=0)]
    start_ns: Annotated[int, Field(ge=0)]
    end_ns: Annotated[int, Field(ge=0)]


class GivenPlan(BaseModel):
    """The plan that a run has already: the `schedule` of a result, of which `ops` counts."""

    model_config = ConfigDict(extra="ignore", strict=True)

    ops: Annotated[list[OperationFields], Field(min_length=1, max_length=2_000_000)]


class RunFields(BaseModel):
    """What a body says about a run beside what is to be planned."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Text200 | None = None
    tags: list[Tag] = Field(
        default=[], max_length=MOST_TAGS, description="Of the jobs that are made for the run."
    )
    plan: GivenPlan | None = Field(
        default=None, description="The plan that its ranks run already; absent = plan one first."
    )


class RunRequest(RunFields, PipelineRequest):
    """The body of a pipeline schedule; `follow`; and the run's own fields."""

    follow: FollowSettings | None = None


class RunChange(PipelineRequest):
    """What changes of a run: of `follow` the settings that are given; of what is planned each part
    that is given as a whole."""

    name: Text200 | None = None
    follow: FollowSettings | None = None


RunTelemetry: TypeAdapter[IterationTelemetry | TelemetryBatch] = TypeAdapter(
    IterationTelemetry | TelemetryBatch
)
"""The body of telemetry: one iteration, or several."""


class AckRequest(Document):
    """A rank holds a version of the plan."""

    rank: WholeNumber
    iteration: WholeNumber = Field(description="The iteration that the rank is in.")


class RunLinks(BaseModel):
    """Addresses of what belongs to a run."""

    self: str
    telemetry: str
    plan: str
    diagnosis: str
    proposals: str
    job: str | None = Field(description="The job of the solve that is in flight for it.")


class RunAccepted(BaseModel):
    """A run was made."""

    id: str
    name: str | None
    state: RunStatus
    job_id: str | None = Field(description="The job that plans it first; null with a given plan.")
    links: RunLinks


class PlanStanding(BaseModel):
    """How the newest version of the plan stands, and which one ranks are to run."""

    version: int
    state: VersionState
    apply_at_iteration: int | None = Field(description="It applies from this iteration on.")
    running_version: int | None


class TelemetryTaken(BaseModel):
    """What became of the samples of a post, each of one stage in one iteration."""

    accepted: int
    known: int = Field(description="Were there already; the first ones are kept.")
    late: int = Field(description="Older than the window that estimates are made from.")
    newest_iteration: int | None = Field(
        description="Null while it is not known where the run begins: a second iteration within "
        "10,000 of a first one beyond 10 has to confirm it."
    )
    plan: PlanStanding | None


class PlanAwaited(BaseModel):
    """There is no plan yet."""

    state: str = Field(description="Of the solve that makes the first one.")
    job_id: str | None
    reason: str | None = Field(
        default=None,
        description="Why there is none though no solve is in flight, and the way out.",
    )


class PlanView(PlanStanding):
    """A version of the plan. `problem` and `schedule` are left out with `brief`."""

    needs_restart: bool
    reason: Reason
    copy_of: int | None
    predicted_gain: float | None
    gain_low: float | None
    measured_gain: float | None
    makespan_ns: int | None
    created_at: datetime
    published_at_iteration: int | None
    job_id: str | None
    problem: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None


class AckTaken(BaseModel):
    """How many ranks hold the version."""

    version: int
    state: VersionState
    acknowledged: int
    of: int
    apply_at_iteration: int | None


class RunItem(BaseModel):
    """A run in a list."""

    id: str
    name: str | None
    state: RunStatus
    model: str | None
    created_at: datetime
    stopped_at: datetime | None
    telemetry_at: datetime | None
    newest_iteration: int | None
    newest_version: int | None
    newest_state: VersionState | None
    apply_at_iteration: int | None
    running_version: int | None
    predicted_gain: float | None = Field(
        description="What the running version was to save of the iteration; null where nothing "
        "ran before it."
    )
    measured_gain: float | None = Field(description="What it has saved; null until measured.")
    links: RunLinks


class RunPage(BaseModel):
    """One page of runs, newest first."""

    runs: list[RunItem]
    next_cursor: str | None


class VersionView(BaseModel):
    """A version of a run's plan, and how many ranks hold it. Gains are shares of the iteration."""

    version: int
    state: VersionState
    reason: Reason
    created_at: datetime
    published_at_iteration: int | None
    apply_at_iteration: int | None
    needs_restart: bool
    copy_of: int | None
    predicted_gain: float | None
    gain_low: float | None
    measured_gain: float | None
    makespan_ns: int | None
    job_id: str | None
    acknowledged: int
    of: int
    missing_ranks: list[int] = Field(
        default=[], description="The first 8 that a published version waits for."
    )


class DriftView(BaseModel):
    """A quantity has moved away from what the running plan was made for."""

    kind: str
    before: float
    after: float
    noise: float = Field(description="Standard error of the difference.")
    since: int = Field(description="The first iteration of the new level.")


class QuantityView(BaseModel):
    """What a stage takes, in the unit of the quantity: the median over the window."""

    value: float
    error: float = Field(description="Standard error of the median.")
    noise: float | None = Field(description="The error as a share of the value.")
    confidence: float = Field(description="The chance that the true value is within 1 %.")
    samples: int
    outliers: int
    since: int
    planned: float | None = Field(description="What the running plan was made for.")
    disbelieved: str | None = Field(
        default=None, description="Why it does not count; null where it does."
    )
    drift: DriftView | None


class RunStageView(BaseModel):
    """What is measured of a stage, by quantity."""

    stage: int
    quantities: dict[str, QuantityView]


class ReSolveView(BaseModel):
    """The solve in flight for a run."""

    job_id: str
    state: SolveState
    reason: Reason
    since_iteration: int


class EventView(BaseModel):
    """Something that happened to a run."""

    seq: int
    at: datetime
    iteration: int | None
    kind: str
    detail: str


class AdaptedStageView(BaseModel):
    """What copies to the host take on one stage, and the chunks that suit them."""

    stage: int
    offload_bytes_per_s: float
    offload_time_factor: float = Field(description="Measured over nominal time, 0.7 to 1.")
    chunk_bytes: int


class AdaptedView(BaseModel):
    """Settings of offloading, as measured; without measured copies null and empty."""

    backward_delay_tolerance_ns: int | None = Field(description="AdaOffload's T.")
    stages: list[AdaptedStageView]


class RunView(RunItem):
    """A run, as of the last look at it."""

    stages_count: int
    ranks: int
    versions: list[VersionView]
    stages: list[RunStageView]
    re_solve: ReSolveView | None
    events: list[EventView]
    adapted: AdaptedView
    settings: FollowSettings
