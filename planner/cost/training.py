"""The training document: batch, degrees of parallelism, precision and memory savers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, ValidationError

from planner.cost.degrees import AskedDegrees, Degrees, find_degrees
from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.cost.offload.variants import OffloadChoice, OffloadDocument, read_offload_choice
from planner.cost.profile import ProfileDocument
from planner.documents import (
    FiniteNumber,
    Listed,
    PositiveWhole,
    WholeNumber,
    spec_error_from,
)
from planner.errors import SpecError
from planner.pipeline.problem import MicroBatchOrder, Objective

Path = tuple[str | int, ...]

LARGEST_MICRO_BATCHES = 100_000
LARGEST_INTERLEAVING = 64


class Recomputation(StrEnum):
    """What the forward does not keep and the backward computes again."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class TrainingDocument(OffloadDocument):
    """How the model is trained. Give one of `micro_batches` and `global_batch_size`."""

    micro_batch_size: Annotated[PositiveWhole, Field(le=2**16)] = 1
    micro_batches: PositiveWhole | None = Field(
        default=None, description="Per iteration and data-parallel replica."
    )
    global_batch_size: PositiveWhole | None = Field(
        default=None, description="Samples per iteration over all replicas."
    )
    sequence: Annotated[PositiveWhole, Field(le=2**24)] | None = Field(
        default=None, description="Instead of the model's."
    )
    pipeline_parallel: PositiveWhole | None = Field(
        default=None, description="Default: all GPUs / tensor_parallel / data_parallel."
    )
    tensor_parallel: PositiveWhole = 1
    data_parallel: PositiveWhole | None = Field(
        default=None,
        description="Default: 1, or what the GPUs allow where `pipeline_parallel` is given.",
    )
    context_parallel: PositiveWhole = Field(
        default=1, description="Ranks that share each sequence (ring attention)."
    )
    expert_parallel: PositiveWhole = Field(
        default=1, description="Data and context ranks that share the experts of each layer."
    )
    expert_load: Annotated[FiniteNumber, Field(ge=1, le=2**12)] = Field(
        default=1.0,
        description="Tokens of the most loaded expert rank over the mean (expert_parallel > 1).",
    )
    interleaving: Annotated[PositiveWhole, Field(le=LARGEST_INTERLEAVING)] | None = Field(
        default=None,
        description="Chunks of layers per device. Default: whatever is best for a schedule, "
        "1 in estimates.",
    )
    layers_per_stage: Annotated[list[PositiveWhole], *Listed] | None = Field(
        default=None,
        description="One entry per stage, in the order of the model. Default: balanced.",
    )
    sequence_parallel: StrictBool | None = Field(
        default=None, description="Default: on where tensor_parallel > 1."
    )
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    gradient_precision: Literal["fp32", "same"] = Field(
        default="fp32", description="Gradients accumulate in fp32 (Megatron-LM) or as `precision`."
    )
    optimizer: Literal["adam", "sgd_momentum", "sgd"] = "adam"
    zero_stage: Annotated[WholeNumber, Field(le=3)] = 0
    recomputation: Literal["none", "selective", "full"] = "none"
    flash_attention: StrictBool = True
    split_backward: StrictBool | None = Field(
        default=None,
        description="Weight gradients are operations of their own. Default: true, except with "
        "full recomputation.",
    )
    offload: StrictBool = Field(default=True, description="Activations may go to host memory.")
    objective: Literal["makespan", "steady_span"] = "makespan"
    micro_batch_order: Literal["fixed", "free"] = "fixed"
    profile: ProfileDocument = ProfileDocument()


@dataclass(frozen=True, slots=True)
class Training:
    """A training document with its defaults resolved for one model and cluster."""

    micro_batch_size: int
    micro_batches: int
    sequence: int
    degrees: Degrees
    expert_load: float
    interleaving: int | None
    layers_per_stage: tuple[int, ...] | None
    sequence_parallel: bool
    precision: str
    gradient_precision: str
    optimizer: str
    zero_stage: int
    recomputation: Recomputation
    flash_attention: bool
    split_backward: bool
    offload: bool
    offload_choice: OffloadChoice
    objective: Objective
    micro_batch_order: MicroBatchOrder
    profile: ProfileDocument

    @property
    def element_bytes(self) -> int:
        """Bytes of one activation element."""
        return _element_bytes(self.precision)

    @property
    def global_batch_size(self) -> int:
        """Samples of one iteration over all replicas."""
        return self.micro_batch_size * self.micro_batches * self.degrees.data


def read_training(
    raw: Mapping[str, Any], model: Model, cluster: Cluster, path: Path = ("training",)
) -> Training:
    """Read a training document and resolve its defaults.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    if not isinstance(raw, Mapping):
        raise SpecError(path, "must be an object.", 'Such as {"micro_batches": 32}.')
    try:
        document = TrainingDocument.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    if cluster.gpu.peak_flop_per_s(document.precision) is None:
        raise SpecError(
            (*path, "precision"),
            f"{cluster.gpu.name} has no {document.precision} rate.",
            f"Choose another precision or give the GPU's {document.precision}_flop_per_s.",
        )
    sequence = _sequence(document, model, path)
    asked = AskedDegrees(
        document.pipeline_parallel,
        document.tensor_parallel,
        document.data_parallel,
        document.context_parallel,
        document.expert_parallel,
    )
    degrees = find_degrees(asked, model, cluster, path)
    interleaving = _interleaving(document, degrees.pipeline, model.layers, path)
    recomputation = Recomputation(document.recomputation)
    split = document.split_backward
    return Training(
        micro_batch_size=document.micro_batch_size,
        micro_batches=_micro_batches(document, degrees.data, path),
        sequence=sequence,
        degrees=degrees,
        expert_load=document.expert_load,
        interleaving=interleaving,
        layers_per_stage=_layers_per_stage(
            document, degrees.pipeline * (interleaving or 1), model.layers, path
        ),
        sequence_parallel=_sequence_parallel(document, sequence, path),
        precision=document.precision,
        gradient_precision=document.gradient_precision,
        optimizer=document.optimizer,
        zero_stage=document.zero_stage,
        recomputation=recomputation,
        flash_attention=document.flash_attention,
        split_backward=recomputation is not Recomputation.FULL if split is None else split,
        offload=document.offload,
        offload_choice=read_offload_choice(
            document, _element_bytes(document.precision), cluster, path
        ),
        objective=Objective(document.objective),
        micro_batch_order=MicroBatchOrder(document.micro_batch_order),
        profile=document.profile,
    )


def _element_bytes(precision: str) -> int:
    return 4 if precision == "fp32" else 2


def _sequence(document: TrainingDocument, model: Model, path: Path) -> int:
    sequence = document.sequence or model.sequence
    if model.max_positions and sequence > model.max_positions:
        raise SpecError(
            (*path, "sequence"),
            f"{sequence} is longer than the model's {model.max_positions} learned positions.",
            "Shorten it, or give the model's `sequence`.",
        )
    return sequence


def _sequence_parallel(document: TrainingDocument, sequence: int, path: Path) -> bool:
    """Context parallelism splits the sequence, in two parts each so that causal attention is
    balanced (Megatron-LM), and sequence parallelism what a rank has of it over tensor ranks."""
    tensor, context = document.tensor_parallel, document.context_parallel
    if context > 1 and sequence % (2 * context):
        raise SpecError(
            (*path, "context_parallel"),
            f"needs a sequence that 2 x context_parallel divides: {sequence} over {2 * context}.",
            "Change one of the two.",
        )
    divides = sequence // context % tensor == 0
    if document.sequence_parallel is None:
        return tensor > 1 and divides
    if document.sequence_parallel and not divides:
        raise SpecError(
            (*path, "sequence_parallel"),
            f"needs a sequence that tensor_parallel divides: {sequence // context} over {tensor}.",
            "Change one of the two, or give false.",
        )
    return document.sequence_parallel and tensor > 1


def _interleaving(document: TrainingDocument, pipeline: int, layers: int, path: Path) -> int | None:
    chunks = document.interleaving
    if chunks is None:
        if document.layers_per_stage is None:
            return None
        chunks = max(1, len(document.layers_per_stage) // pipeline)
    if chunks > 1 and pipeline == 1:
        raise SpecError(
            (*path, "interleaving"),
            "needs more than one pipeline rank.",
            "Remove it, or raise pipeline_parallel.",
        )
    if chunks * pipeline > layers:
        raise SpecError(
            (*path, "interleaving"),
            f"{pipeline} x {chunks} stages need at least as many layers; the model has {layers}.",
            f"Give at most {layers // pipeline}.",
        )
    return chunks


def _layers_per_stage(
    document: TrainingDocument, stages: int, layers: int, path: Path
) -> tuple[int, ...] | None:
    given = document.layers_per_stage
    if given is None:
        return None
    if len(given) != stages or sum(given) != layers:
        raise SpecError(
            (*path, "layers_per_stage"),
            f"has {len(given)} entries that add up to {sum(given)}; there are {stages} stages "
            f"and {layers} layers.",
            "Give one number per stage (pipeline_parallel x interleaving of them).",
        )
    return tuple(given)


def _micro_batches(document: TrainingDocument, data_parallel: int, path: Path) -> int:
    count, global_batch = document.micro_batches, document.global_batch_size
    per_step = document.micro_batch_size * data_parallel
    if global_batch is None:
        if count is None:
            raise SpecError(
                (*path, "micro_batches"), "is required.", "Give it, or `global_batch_size`."
            )
    else:
        if global_batch % per_step:
            raise SpecError(
                (*path, "global_batch_size"),
                f"{global_batch} is not a multiple of micro_batch_size x data_parallel "
                f"({document.micro_batch_size} x {data_parallel}).",
                f"The nearest multiple is {max(1, round(global_batch / per_step)) * per_step}.",
            )
        if count is not None and count != global_batch // per_step:
            raise SpecError(
                (*path, "micro_batches"),
                f"{count} contradicts global_batch_size, which gives {global_batch // per_step}.",
                "Give one of the two.",
            )
        count = global_batch // per_step
    if count > LARGEST_MICRO_BATCHES:
        field = "micro_batches" if global_batch is None else "global_batch_size"
        raise SpecError(
            (*path, field),
            f"gives {count} micro-batches; at most {LARGEST_MICRO_BATCHES}.",
            "Raise micro_batch_size or data_parallel.",
        )
    return count
