"""Changes to a training that save memory, in the order in which they are worth trying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.cost.degrees import tensor_degrees
from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.cost.offload.host_tiers import Tier
from planner.cost.training import Recomputation, Training


@dataclass(frozen=True, slots=True)
class Change:
    """Fields of the training document to replace, and the change in words."""

    words: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Changes of one kind, mildest first."""

    kind: str
    steps: Sequence[Change]


def single_changes(model: Model, cluster: Cluster, training: Training) -> list[Ladder]:
    """One ladder per kind of change; without steps where nothing is left to change.

    A step may turn out not to suit the model or cluster; whoever tries it finds out.
    """
    return [
        Ladder("offload", _offload(cluster, training)),
        Ladder("recomputation", _recomputation(training)),
        Ladder("smaller_micro_batch", _micro_batch_size(training)),
        Ladder("more_stages", _pipeline(model, cluster, training)),
        Ladder("tensor_parallel", _tensor(model, cluster, training)),
        Ladder("zero_stage", _zero_stage(training)),
    ]


def combined_change(training: Training) -> Ladder:
    """Offload, full recomputation, one sample per micro-batch and full ZeRO at once."""
    return Ladder("together", _together(training))


def _offload(cluster: Cluster, training: Training) -> list[Change]:
    """To host memory, then wherever there is room; what is lossy is never proposed."""
    steps = [] if training.offload else [Change("offload activations", {"offload": True})]
    if cluster.host_tiers.ssd is not None and training.offload_choice.tier == Tier.DRAM:
        fields = {"offload": True, "offload_tier": Tier.SSD.value}
        steps.append(Change("offload activations to the SSDs", fields))
    return steps


def _recomputation(training: Training) -> list[Change]:
    stronger = []
    if training.recomputation is Recomputation.NONE and not training.flash_attention:
        stronger.append("selective")
    if training.recomputation is not Recomputation.FULL:
        stronger.append("full")
    return [Change(f"{level} recomputation", {"recomputation": level}) for level in stronger]


def _micro_batch_size(training: Training) -> list[Change]:
    """Smaller micro-batches, more of them, so that the global batch stays."""
    size, count = training.micro_batch_size, training.micro_batches
    return [
        Change(
            f"micro_batch_size {smaller}, {count * size // smaller} micro-batches",
            {"micro_batch_size": smaller, "micro_batches": count * size // smaller},
        )
        for smaller in range(size - 1, 0, -1)
        if size % smaller == 0
    ]


def _zero_stage(training: Training) -> list[Change]:
    if training.degrees.replicas == 1:
        return []
    return [
        Change(f"ZeRO stage {stage}", {"zero_stage": stage})
        for stage in range(training.zero_stage + 1, 4)
    ]


def _pipeline(model: Model, cluster: Cluster, training: Training) -> list[Change]:
    """More stages, in numbers that leave no GPU idle."""
    groups = cluster.gpus // (training.degrees.tensor * training.degrees.context)
    return [
        change
        for pipeline in range(training.degrees.pipeline + 1, min(model.layers, groups) + 1)
        if groups % pipeline == 0
        for change in _degrees(cluster, training, pipeline, training.degrees.tensor)
    ]


def _tensor(model: Model, cluster: Cluster, training: Training) -> list[Change]:
    """Higher tensor degrees, with as many stages as the cluster has room for."""
    ladder: list[Change] = []
    for tensor in tensor_degrees(model, cluster):
        if tensor > training.degrees.tensor:
            groups = cluster.gpus // (tensor * training.degrees.context)
            pipeline = min(training.degrees.pipeline, groups)
            ladder += _degrees(cluster, training, pipeline, tensor)
    return ladder


def _degrees(cluster: Cluster, training: Training, pipeline: int, tensor: int) -> list[Change]:
    """The degrees with the data degree lowered where GPUs are short, the global batch kept."""
    used = pipeline * tensor * training.degrees.context
    data = min(training.degrees.data, cluster.gpus // used if used else 0)
    samples = training.global_batch_size
    per_step = training.micro_batch_size * data
    if data < 1 or samples % per_step:
        return []
    fields = {
        "pipeline_parallel": pipeline,
        "tensor_parallel": tensor,
        "data_parallel": data,
        "micro_batches": samples // per_step,
    }
    words = f"pipeline {pipeline} x tensor {tensor} x data {data}"
    return [Change(words, fields)]


def _together(training: Training) -> list[Change]:
    fields: dict[str, Any] = {
        "offload": True,
        "recomputation": "full",
        "micro_batch_size": 1,
        "micro_batches": training.micro_batches * training.micro_batch_size,
    }
    words = f"full recomputation, offload, {fields['micro_batches']} micro-batches of 1 sample"
    if training.degrees.replicas > 1:
        fields["zero_stage"] = 3
        words += ", ZeRO stage 3"
    return [Change(words, fields)]
