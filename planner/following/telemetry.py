"""What ranks report of their iterations, read into one sample per iteration and stage.

Times are those of one micro-batch of the stage in that iteration. Memory deltas are those of one
micro-batch: what F leaves allocated, and by how much B changes that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from planner.documents import (
    LARGEST_VALUE,
    ONE_NUMBER,
    STATISTICS,
    WRITE_WHOLE,
    Document,
    FiniteNumber,
    Refused,
    WholeNumber,
    spec_error_from,
)
from planner.errors import SpecError

MOST_ITERATIONS = 1_000
MOST_STAGES = 128

COMPUTE_TIMES = ("forward_ns", "backward_input_ns", "backward_weight_ns")
OFFLOAD_TIMES = ("offload_ns", "reload_ns")
TRANSFER_TIMES = ("transfer_forward_ns", "transfer_backward_ns")
TIMES = (*COMPUTE_TIMES, *OFFLOAD_TIMES, *TRANSFER_TIMES)
MEMORY_DELTAS = ("forward_memory_delta_bytes", "backward_memory_delta_bytes")
MEMORY_FIGURES = ("peak_memory_bytes", "memory_limit_bytes")
SHARES = ("link_busy_share", "gpu_utilisation")
ITERATION_NS, PLAN_VERSION = "iteration_ns", "plan_version"
"""What a sample has of its whole iteration."""


def _signed_whole(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("must be a whole number", WRITE_WHOLE)
    if isinstance(value, float):
        if not value.is_integer():
            raise Refused("must be a whole number", WRITE_WHOLE)
        return int(value)
    return value


SignedWhole = Annotated[
    int, BeforeValidator(_signed_whole), Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)
]
Share = Annotated[FiniteNumber, Field(ge=0, le=1)]


class Statistics(Document):
    """A time over an iteration's micro-batches; the median counts, else the mean, else p95."""

    median: WholeNumber | None = None
    mean: WholeNumber | None = None
    p95: WholeNumber | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Statistics:
        if self.median is None and self.mean is None and self.p95 is None:
            raise Refused("says nothing", "Give `median`, `mean` or `p95`, in nanoseconds.")
        return self

    @property
    def typical(self) -> int:
        """The value that counts."""
        known = [value for value in (self.median, self.mean, self.p95) if value is not None]
        return known[0]


def _measure_tag(value: Any) -> str:
    return STATISTICS if isinstance(value, dict | Statistics) else ONE_NUMBER


Measure = Annotated[
    Annotated[WholeNumber, Tag(ONE_NUMBER)] | Annotated[Statistics, Tag(STATISTICS)],
    Discriminator(_measure_tag),
]
"""A time: whole nanoseconds, or statistics over the iteration's micro-batches."""


class StageTelemetry(Document):
    """One stage in one iteration; everything but its number may be left out."""

    stage: Annotated[WholeNumber, Field(lt=MOST_STAGES)]
    forward_ns: Measure | None = None
    backward_input_ns: Measure | None = None
    backward_weight_ns: Measure | None = None
    offload_ns: Measure | None = None
    reload_ns: Measure | None = None
    transfer_forward_ns: Measure | None = Field(
        default=None, description="Latency to the next stage, of its input."
    )
    transfer_backward_ns: Measure | None = Field(
        default=None, description="Latency from the next stage, of the gradient of its input."
    )
    forward_memory_delta_bytes: SignedWhole | None = Field(
        default=None, description="Allocated device memory after F minus before, one micro-batch."
    )
    backward_memory_delta_bytes: SignedWhole | None = Field(
        default=None,
        description="The same of B; negative where it frees more than it allocates. What remains "
        "of F and B together is held until W ends.",
    )
    peak_memory_bytes: WholeNumber | None = None
    memory_limit_bytes: WholeNumber | None = Field(
        default=None, description="What the device may use; a change of it asks for a new plan."
    )
    link_busy_share: Share | None = None
    gpu_utilisation: Share | None = None


class IterationTelemetry(Document):
    """One iteration of some or all stages."""

    iteration: WholeNumber
    iteration_ns: WholeNumber | None = None
    plan_version: WholeNumber | None = Field(
        default=None, description="The version of the plan that this iteration ran."
    )
    stages: Annotated[list[StageTelemetry], Field(min_length=1, max_length=MOST_STAGES)]


class TelemetryBatch(Document):
    """Several iterations at once."""

    iterations: Annotated[
        list[IterationTelemetry], Field(min_length=1, max_length=MOST_ITERATIONS, fail_fast=True)
    ]


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of one stage in one iteration: values by the names above."""

    iteration: int
    stage: int
    values: Mapping[str, int | float]

    def to_text(self) -> str:
        """The values as JSON, which `from_text` reads."""
        return json.dumps(self.values, separators=(",", ":"), sort_keys=True, allow_nan=False)

    @staticmethod
    def from_text(iteration: int, stage: int, text: str) -> Sample:
        """The sample whose `to_text` was stored under this iteration and stage."""
        return Sample(iteration, stage, json.loads(text))


def read_telemetry(body: Mapping[str, Any], stages: int) -> list[Sample]:
    """The samples of a telemetry body: one iteration, or `{"iterations": […]}` with several.

    `stages` is how many the run's problem has. Raises `SpecError` that names the field at fault,
    also where one stage of an iteration appears twice.
    """
    try:
        if "iterations" in body:
            return _samples(TelemetryBatch.model_validate(body).iterations, stages, True)
        return _samples([IterationTelemetry.model_validate(body)], stages, False)
    except ValidationError as error:
        raise spec_error_from(error) from error


def _samples(iterations: list[IterationTelemetry], stages: int, several: bool) -> list[Sample]:
    samples = []
    seen: set[tuple[int, int]] = set()
    for i, own in enumerate(iterations):
        for k, stage in enumerate(own.stages):
            path = (*(("iterations", i) if several else ()), "stages", k, "stage")
            if stage.stage >= stages:
                raise SpecError(
                    path,
                    f"there is no stage {stage.stage}.",
                    f"The run has {stages} stages, counted from 0.",
                )
            if (own.iteration, stage.stage) in seen:
                raise SpecError(
                    path,
                    f"stage {stage.stage} of iteration {own.iteration} appears twice.",
                    "Give each stage once per iteration.",
                )
            seen.add((own.iteration, stage.stage))
            values = dict(_values(own, stage))
            if not values.keys() - {PLAN_VERSION}:
                # It would be stored in place of what is measured and comes later.
                raise SpecError(
                    path[:-1],
                    f"nothing is said of stage {stage.stage}.",
                    "Give something that was measured, or leave the stage out.",
                )
            samples.append(Sample(own.iteration, stage.stage, values))
    return samples


def _values(own: IterationTelemetry, stage: StageTelemetry) -> Iterator[tuple[str, int | float]]:
    for name in (*TIMES, *MEMORY_DELTAS, *MEMORY_FIGURES, *SHARES):
        value = getattr(stage, name)
        if value is not None:
            yield name, value.typical if isinstance(value, Statistics) else value
    for name in (ITERATION_NS, PLAN_VERSION):
        value = getattr(own, name)
        if value is not None:
            yield name, value
