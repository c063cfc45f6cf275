"""The body of a diagnosis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from planner.diagnoses.names import Symptom
from planner.documents import (
    Document,
    FiniteNumber,
    Listed,
    PositiveWhole,
    WholeNumber,
)
from planner.following.telemetry import IterationTelemetry
from planner.pipeline.documents import ProblemDocument
from planner.pipeline.options import SolverDocument

LARGEST_NUMBER = 1e18
MOST_RANKS = 4096

Positive = Annotated[FiniteNumber, Field(gt=0, le=LARGEST_NUMBER)]


class RunningOperationDocument(Document):
    """An operation of a schedule."""

    op: Literal["F", "B", "W", "O", "R"]
    stage: WholeNumber
    micro_batch: WholeNumber
    start_ns: WholeNumber
    end_ns: WholeNumber


class RunningScheduleDocument(Document):
    """The `schedule` of an answer. Its figures are worked out again from `ops`."""

    ops: Annotated[list[RunningOperationDocument], *Listed] = Field(min_length=1)
    makespan_ns: Any = None
    steady_span_ns: Any = None
    peak_memory_bytes: Any = None
    lower_bound_ns: Any = None
    waits: Any = None


class MeasuredThroughputDocument(Document):
    """Throughput measured on a number of devices."""

    devices: PositiveWhole
    tokens_per_s: Positive
    nodes: PositiveWhole | None = None
    pipeline_parallel: PositiveWhole | None = None
    micro_batches: PositiveWhole | None = None


class ObservedSolveDocument(Document):
    """How a solve went."""

    spent_s: Annotated[FiniteNumber, Field(ge=0, le=LARGEST_NUMBER)] | None = None
    gap: Annotated[FiniteNumber, Field(ge=0, le=LARGEST_NUMBER)] | None = Field(
        default=None, description="Of its best plan; absent where it has none."
    )
    log: Annotated[list[Annotated[str, StringConstraints(max_length=10_000)]], *Listed] = Field(
        default_factory=list, description="Lines of its log."
    )


Cell = Annotated[str, StringConstraints(max_length=40)]


class DiagnosisDocument(Document):
    """Symptoms, and everything that is known: the more, the more is decided."""

    symptoms: Annotated[list[Symptom], *Listed] = Field(
        default_factory=list, description="Without any they are found from the numbers."
    )
    problem: ProblemDocument | None = None
    model: str | dict[str, Any] | None = Field(
        default=None, description="As for a pipeline schedule, with `cluster` and `training`."
    )
    cluster: str | dict[str, Any] | None = None
    training: dict[str, Any] | None = None
    placement: str | None = Field(
        default=None,
        description="Which one of a model's; default: that which has as many stages as `schedule` "
        "or `telemetry`, or else one chunk per device.",
    )
    solver: SolverDocument = Field(default_factory=SolverDocument)
    schedule: RunningScheduleDocument | None = Field(
        default=None, description="The plan that runs."
    )
    orders: (
        Annotated[
            list[Annotated[list[Cell], *Listed]],
            *Listed,
            Field(max_length=MOST_RANKS),
        ]
        | None
    ) = Field(
        default=None,
        description="What each rank runs, in PyTorch's notation (`2F0`), where the order itself "
        "is in doubt.",
    )
    plan_versions: Annotated[list[WholeNumber], *Listed] = Field(
        default_factory=list, description="The version of the plan that each rank runs."
    )
    telemetry: Annotated[list[IterationTelemetry], *Listed] = Field(
        default_factory=list, description="Iterations, each in the form in which runs report them."
    )
    throughput: Annotated[list[MeasuredThroughputDocument], *Listed] = Field(default_factory=list)
    solve: ObservedSolveDocument | None = None
