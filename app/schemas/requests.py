"""What a client says about a job beside the work itself, and the whole body as OpenAPI shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import FieldError, InvalidRequest
from app.models import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
from app.services.submission import JobOptions
from planner.pipeline.request import PipelineRequest
from planner.sharding.request import ShardingRequest
from planner.training.request import TrainingRequest

Tag = Annotated[str, Field(min_length=1, max_length=64)]


class JobFields(BaseModel):
    """The fields of a body that belong to the job and do not change its answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str | None = Field(default=None, min_length=1, max_length=200)
    tags: list[Tag] = Field(default=[], max_length=16, description="Labels to find the job by.")
    priority: int = Field(
        default=DEFAULT_PRIORITY,
        ge=LOWEST_PRIORITY,
        le=HIGHEST_PRIORITY,
        description="Queued jobs with a higher one go first.",
    )


class PipelineScheduleRequest(JobFields, PipelineRequest):
    """A `problem`, or `model`, `cluster` and `training`; `solver`; and the fields of the job."""


class ShardingPlanRequest(JobFields, ShardingRequest):
    """A `graph` or a `transformer`, `devices`, what a plan is judged by; and the job's fields."""


class TrainingPlanRequest(JobFields, TrainingRequest):
    """`model`, `cluster`, what is fixed of the `training`, what to `search`; and the job's
    fields."""


def split_body(body: Mapping[str, Any]) -> tuple[JobOptions, dict[str, Any]]:
    """The job's fields, checked, and the rest of the body, which the planner resolves.

    Raises `InvalidRequest` that names every field at fault.
    """
    own = {name: value for name, value in body.items() if name in JobFields.model_fields}
    rest = {name: value for name, value in body.items() if name not in own}
    try:
        fields = JobFields.model_validate(own)
    except ValidationError as error:
        raise _invalid(error) from error
    tags = tuple(dict.fromkeys(fields.tags))
    return JobOptions(name=fields.name, tags=tags, priority=fields.priority), rest


def _invalid(error: ValidationError) -> InvalidRequest:
    entries = error.errors(include_url=False, include_input=False)
    errors = [FieldError.of_complaint(entry["loc"], entry) for entry in entries]
    detail = "; ".join(f"{entry.path}: {entry.message}" for entry in errors)
    return InvalidRequest(detail, errors=errors)
