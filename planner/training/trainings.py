"""From a configuration to the training that the cost model takes, and to the document to post."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.cost.memory import StateBytes, state_bytes
from planner.cost.training import Recomputation, Training, TrainingDocument, read_training
from planner.training.space import Point, Saver, savers
from planner.training.spec import TrainingSpec


def training_of(spec: TrainingSpec, point: Point, expert_load: float | None) -> Training:
    """The training of a point with the mildest savers and one chunk per device.

    Raises `SpecError` where the sequence does not suit the degrees.
    """
    degrees = point.degrees
    zero_stage, recomputation, offload = savers(spec, degrees)[0]
    document = {
        **spec.fixed,
        "global_batch_size": spec.global_batch_size,
        "micro_batch_size": point.micro_batch_size,
        "pipeline_parallel": degrees.pipeline,
        "tensor_parallel": degrees.tensor,
        "data_parallel": degrees.data,
        "context_parallel": degrees.context,
        "expert_parallel": degrees.expert,
        "zero_stage": zero_stage,
        "recomputation": recomputation.value,
        "offload": offload,
    }
    if expert_load is not None:
        document["expert_load"] = expert_load
    return read_training(document, spec.model, spec.cluster)


def with_savers(
    training: Training,
    spec: TrainingSpec,
    chunks: int,
    saver: Saver,
) -> Training:
    """The same with other chunks per device and savers; a whole backward stays one operation
    under full recomputation unless asked for otherwise."""
    zero_stage, recomputation, offload = saver
    split = spec.fixed.get("split_backward")
    return replace(
        training,
        interleaving=chunks,
        zero_stage=zero_stage,
        recomputation=recomputation,
        offload=offload,
        split_backward=recomputation is not Recomputation.FULL if split is None else split,
    )


def document_of(spec: TrainingSpec, training: Training) -> dict[str, Any]:
    """The training document to post: what is fixed and not as by default, and all of the plan."""
    degrees = training.degrees
    defaults = {name: f.default for name, f in TrainingDocument.model_fields.items()}
    document = {name: v for name, v in spec.fixed.items() if v != defaults[name]}
    document |= {
        "global_batch_size": spec.global_batch_size,
        "micro_batch_size": training.micro_batch_size,
        "tensor_parallel": degrees.tensor,
        "pipeline_parallel": degrees.pipeline,
        "data_parallel": degrees.data,
        "interleaving": training.interleaving,
        "zero_stage": training.zero_stage,
        "recomputation": training.recomputation.value,
        "offload": training.offload,
    }
    if training.layers_per_stage is not None:
        document["layers_per_stage"] = list(training.layers_per_stage)
    if degrees.context > 1:
        document["context_parallel"] = degrees.context
    if degrees.expert > 1:
        document |= {
            "expert_parallel": degrees.expert,
            "expert_load": training.expert_load,
        }
    return document


def as_asked(spec: TrainingSpec, training: Training) -> Training:
    """With the layers per stage that the request gives, or open."""
    given = spec.fixed.get("layers_per_stage")
    return replace(training, layers_per_stage=None if given is None else tuple(given))


def states_of(spec: TrainingSpec) -> StateBytes:
    """Bytes per parameter of every configuration."""
    fixed = spec.fixed
    return state_bytes(fixed["precision"], fixed["gradient_precision"], fixed["optimizer"])
