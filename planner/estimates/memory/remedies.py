"""What would make a training fit into memory, and how much it takes at the least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.cost.blocks import training_state_bytes
from planner.cost.build import CostModel
from planner.cost.changes import Change, Ladder, combined_change, single_changes
from planner.cost.degrees import tensor_degrees
from planner.cost.hardware import LARGEST_GPUS
from planner.cost.parameters import count_parameters
from planner.cost.training import read_training
from planner.errors import SpecError
from planner.estimates.ranks import rank_footprints, tightest

Raw = Mapping[str, Any]

_OFFLOADING: dict[str, Any] = {
    "change": "offload",
    "fits": None,
    "detail": "Not part of this estimate. POST /v1/pipeline-schedules plans what to offload and "
    "when, /v1/offload-estimates how fast.",
    "steps": [],
}


def what_would_fit(costs: CostModel, raw: Raw) -> dict[str, Any]:
    """Each kind of change on its own, mildest first up to the first that fits, with the peak of
    each; then all at once. Beside it the least memory, and where nothing fits the least number of
    GPUs.

    `raw` is the training document as posted.
    """
    ladders = single_changes(costs.model, costs.cluster, costs.training)
    ladders.append(combined_change(costs.training))
    changes = [
        dict(_OFFLOADING) if ladder.kind == "offload" else _climb(costs, raw, ladder)
        for ladder in ladders
    ]
    steps = [step for change in changes for step in change["steps"] if "peak_bytes" in step]
    least = min(steps, key=lambda step: step["peak_bytes"], default=None)
    answer: dict[str, Any] = {
        "basis": "Each changed training was resolved and its memory computed as above; the global "
        "batch stays, offloading is not counted.",
        "changes": changes,
        "least_on_this_cluster": least
        and {"change": least["change"], "gpu_memory_bytes": least["peak_bytes"]},
    }
    if not any(change["fits"] for change in changes):
        answer["least_gpus"] = _least_gpus(costs, raw)
    return answer


def _climb(costs: CostModel, raw: Raw, ladder: Ladder) -> dict[str, Any]:
    steps = []
    for change in ladder.steps:
        step = _step(costs, raw, change)
        steps.append(step)
        if step["fits"]:
            return {
                "change": ladder.kind,
                "fits": True,
                "detail": f"With {change.words} it fits.",
                "training": _changed(costs, raw, change),
                "steps": steps,
            }
    detail = "No step of this kind is enough." if steps else "Nothing is left to change."
    return {"change": ladder.kind, "fits": False, "detail": detail, "steps": steps}


def _step(costs: CostModel, raw: Raw, change: Change) -> dict[str, Any]:
    try:
        training = read_training(_changed(costs, raw, change), costs.model, costs.cluster)
    except SpecError as error:
        return {"change": change.words, "fits": False, "refused": str(error)}
    rank = tightest(rank_footprints(CostModel.of(costs.model, costs.cluster, training)))
    return {
        "change": change.words,
        "fits": rank.headroom_bytes >= 0,
        "peak_bytes": rank.total_bytes,
        "headroom_bytes": rank.headroom_bytes,
        "rank": rank.rank,
    }


def _changed(costs: CostModel, raw: Raw, change: Change) -> dict[str, Any]:
    """The document with the change; layers given per stage belong to the stages they were given
    for, and the batch is named once."""
    changed = {**raw, **change.fields}
    if change.fields.get("pipeline_parallel") not in (None, costs.training.degrees.pipeline):
        changed.pop("layers_per_stage", None)
    if "micro_batches" in change.fields:
        changed.pop("global_batch_size", None)
    return changed


def _least_gpus(costs: CostModel, raw: Raw) -> dict[str, Any]:
    """The smallest number of GPUs, nodes added as needed, on which one sample per micro-batch with
    full recomputation and ZeRO stage 3 fits, over tensor degrees, equal stages and data degrees
    that divide the global batch."""
    model, training = costs.model, costs.training
    states = training_state_bytes(training).total * count_parameters(model).total
    room = costs.cluster.memory_bytes - costs.cluster.reserved_bytes
    context, expert = training.degrees.context, training.degrees.expert
    divisors = _divisors(training.global_batch_size)
    best: dict[str, Any] | None = None
    for tensor in tensor_degrees(model, costs.cluster):
        for pipeline in _divisors(model.layers):
            ranks = tensor * pipeline * context
            most = LARGEST_GPUS if best is None else best["gpus"] - 1
            data = [
                replicas
                for replicas in divisors
                if ranks * replicas <= most
                and replicas * context % expert == 0
                # States alone, split over all GPUs, have to fit.
                and states <= room * ranks * replicas
            ]
            best = _fewest_replicas(costs, raw, tensor, pipeline, data) or best
    if best is not None:
        return best
    return {
        "gpus": None,
        "reason": "Even with as many replicas as the global batch has samples one layer, or the "
        "logits of one sample, takes more than a GPU has. Shorten the sequence, raise "
        "context_parallel, or take GPUs with more memory.",
    }


def _fewest_replicas(
    costs: CostModel, raw: Raw, tensor: int, pipeline: int, data: list[int]
) -> dict[str, Any] | None:
    """More replicas never take more memory, so that bisection finds the fewest, after the most."""
    best = None
    low, middle, high = 0, len(data) - 1, len(data)
    while low < high:
        found = _on_replicas(costs, raw, tensor, pipeline, data[middle])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
        middle = (low + high) // 2
    return best


def _on_replicas(
    costs: CostModel, raw: Raw, tensor: int, pipeline: int, data: int
) -> dict[str, Any] | None:
    """The training on as many nodes as it needs, None where it does not fit."""
    gpus = tensor * pipeline * data * costs.training.degrees.context
    nodes = -(-gpus // costs.cluster.gpus_per_node)
    cluster = replace(costs.cluster, nodes=nodes)
    kept = {
        name: value
        for name, value in raw.items()
        if name not in ("micro_batches", "interleaving", "sequence_parallel")
    }
    document = kept | {
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "data_parallel": data,
        "global_batch_size": costs.training.global_batch_size,
        "micro_batch_size": 1,
        "recomputation": "full",
        "zero_stage": 3,
        "layers_per_stage": [costs.model.layers // pipeline] * pipeline,
    }
    try:
        training = read_training(document, costs.model, cluster)
    except SpecError:
        return None
    rank = tightest(rank_footprints(CostModel.of(costs.model, cluster, training)))
    if rank.headroom_bytes < 0:
        return None
    return {"gpus": gpus, "nodes": nodes, "peak_bytes": rank.total_bytes, "training": document}


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
