"""What a client says about a job beside the work itself, and the whole body as OpenAPI shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import FieldError, InvalidRequest
from app.models import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
from app.schemas.webhooks import WebhookFields
from planner.pipeline.request import PipelineRequest
from planner.sharding.request import ShardingRequest
from planner.training.request import TrainingRequest

Tag = Annotated[str, Field(min_length=1, max_length=64)]
FieldsT = TypeVar("FieldsT", bound=BaseModel)


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
    webhook: WebhookFields | None = None


class PipelineScheduleRequest(JobFields, PipelineRequest):
    """A `problem`, or `model`, `cluster` and `training`; `solver`; and the fields of the job."""


class ShardingPlanRequest(JobFields, ShardingRequest):
    """A `graph` or a `transformer`, `devices`, what a plan is judged by; and the job's fields."""


class TrainingPlanRequest(JobFields, TrainingRequest):
    """`model`, `cluster`, what is fixed of the `training`, what to `search`; and the job's
    fields."""


def split_body(body: Mapping[str, Any]) -> tuple[JobFields, dict[str, Any]]:
    """The job's fields, checked, and the rest of the body, which the planner resolves.

    Raises `InvalidRequest` that names every field at fault.
    """
    own = {name: value for name, value in body.items() if name in JobFields.model_fields}
    rest = {name: value for name, value in body.items() if name not in own}
    return read_fields(JobFields, own), rest


def read_fields(model: type[FieldsT], document: Mapping[str, Any]) -> FieldsT:
    """The document as this model. Raises `InvalidRequest` that names every field at fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _invalid(error) from error


def _invalid(error: ValidationError) -> InvalidRequest:
    entries = error.errors(include_url=False, include_input=False)
    errors = [FieldError.of_complaint(entry["loc"], entry) for entry in entries]
    detail = "; ".join(f"{entry.path}: {entry.message}" for entry in errors)
    return InvalidRequest(detail, errors=errors)
