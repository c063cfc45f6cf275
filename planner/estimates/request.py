"""What every estimate is asked for: a model, a cluster and how to train it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from planner.cost.build import CostModel
from planner.cost.spec import read_cost_model
from planner.documents import Document, spec_error_from


class EstimateRequest(Document):
    """The documents that a pipeline schedule is asked for with; estimates add their own fields."""

    model: str | dict[str, Any] = Field(
        description="A preset's name, or fields (a `preset` among them if wanted)."
    )
    cluster: str | dict[str, Any] = Field(
        description="Such as `8xA100-40GB` or `4x8xH100`, or fields."
    )
    training: dict[str, Any] = Field(
        default_factory=dict,
        description="Micro-batches, parallel degrees, precision, recomputation, …",
    )


Request = TypeVar("Request", bound=EstimateRequest)


def read_request(kind: type[Request], body: Mapping[str, Any]) -> Request:
    """Check a body's own fields. Raises `SpecError` that names the field at fault."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise spec_error_from(error) from error


def read_costs(request: EstimateRequest) -> CostModel:
    """The cost model of a request's documents. Raises `SpecError` that names the field at fault."""
    return read_cost_model(request.model, request.cluster, request.training)
