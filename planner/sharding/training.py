"""The training document of a sharding plan: precision, optimizer and what is kept of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, ValidationError

from planner.cost.memory import StateBytes, state_bytes
from planner.cost.training import LARGEST_MICRO_BATCHES
from planner.documents import Document, PositiveWhole, WholeNumber, spec_error_from
from planner.errors import SpecError

Path = tuple[str | int, ...]

Precision = Literal["bf16", "fp16", "fp32"]
GradientPrecision = Literal["fp32", "same"]
Optimizer = Literal["adam", "sgd_momentum", "sgd"]


class ShardingTrainingDocument(Document):
    """How the operators are trained; every field has a default."""

    precision: Precision = Field(
        default="bf16", description="Of parameters; of activations too in a `transformer`."
    )
    gradient_precision: GradientPrecision = Field(
        default="fp32", description="Gradients accumulate in fp32 (Megatron-LM) or as `precision`."
    )
    optimizer: Optimizer = "adam"
    zero_stage: Annotated[WholeNumber, Field(le=3)] = Field(
        default=0, description="What is split over the data role as well (ZeRO)."
    )
    micro_batches: Annotated[PositiveWhole, Field(le=LARGEST_MICRO_BATCHES)] = Field(
        default=1, description="Passes through the graph in one optimizer step."
    )
    flash_attention: StrictBool = Field(
        default=True, description="One attention operator that does not store the scores."
    )
    sequence_parallel: StrictBool = Field(
        default=False, description="Tensors between tensor-parallel operators may be split by it."
    )
    dropout: StrictBool = Field(default=False, description="Dropout operators with their masks.")


@dataclass(frozen=True, slots=True)
class ShardingTraining:
    """A training document, read. Activations are sent in each of `micro_batches`, gradients once
    per optimizer step except where ZeRO scatters them."""

    precision: Precision
    gradient_precision: GradientPrecision
    optimizer: Optimizer
    zero_stage: int
    micro_batches: int
    flash_attention: bool
    sequence_parallel: bool
    dropout: bool

    @property
    def state_bytes(self) -> StateBytes:
        """Bytes that one parameter takes with its gradient and optimizer states."""
        return state_bytes(self.precision, self.gradient_precision, self.optimizer)


def read_sharding_training(raw: Mapping[str, Any], path: Path = ("training",)) -> ShardingTraining:
    """Read a training document; an empty one gives the defaults.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    if not isinstance(raw, Mapping):
        raise SpecError(path, "must be an object.", "Leave it out for the defaults.")
    try:
        document = ShardingTrainingDocument.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    return ShardingTraining(**document.model_dump())
