"""What each pipeline rank holds in device memory, whether it fits, and what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.cost.blocks import training_state_bytes
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.note import Note, note
from planner.cost.notes import notes_of
from planner.cost.parameters import Shard, count_parameters, embedding_shard, head_shard
from planner.cost.training import Training
from planner.estimates.memory.buffers import buffer_documents, nccl_bytes
from planner.estimates.memory.remedies import what_would_fit
from planner.estimates.ranks import estimated_placement, rank_footprints, tightest
from planner.estimates.request import EstimateRequest, read_costs, read_request
from planner.sizes import gib

_PARTS = {
    "parameters_bytes": "In the training precision; ZeRO stage 3 keeps a share.",
    "gradients_bytes": "ZeRO stages 2 and 3 keep a share.",
    "optimizer_bytes": "With the fp32 copy of the parameters; from ZeRO stage 1 on a share.",
    "gathered_parameters_bytes": "ZeRO stage 3: the largest of one layer, embedding and output "
    "layer, whole.",
    "activations_bytes": "Of transformer layers: Korthikanti et al. 2022, times the micro-batches "
    "in flight.",
    "embedding_activations_bytes": "Token numbers and dropout mask of the embedding, times the "
    "micro-batches in flight.",
    "logits_bytes": "Of one micro-batch: inputs of the final norm and of the output layer, fp32 "
    "logits, which the cross-entropy turns into their gradient in place, and their copy in the "
    "training precision.",
    "workspace_bytes": "Of one layer's backward: what it rebuilds and gradients of activations.",
    "communication_buffers_bytes": "See communication_buffers.",
    "static_bytes": "parameters_bytes + gradients_bytes + optimizer_bytes, what stays from step "
    "to step.",
    "peak_allocated_bytes": "The most that the framework allocates at one time: all of the above, "
    "but only the larger of logits_bytes (peak_at loss) and workspace_bytes (peak_at backward).",
    "reserved_bytes": "The cluster's reserve: CUDA context, NCCL, library workspaces, "
    "fragmentation.",
    "total_bytes": "peak_allocated_bytes + reserved_bytes.",
}


def estimate_memory(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of every pipeline rank's memory, per GPU.

    Raises `SpecError` that names the field at fault.
    """
    request = read_request(EstimateRequest, body)
    costs = read_costs(request)
    placement = estimated_placement(costs)
    layers = costs.layers_per_stage(placement)
    ranks = rank_footprints(costs)
    worst = tightest(ranks)
    fits = worst.headroom_bytes >= 0
    return {
        "fits": fits,
        "most_loaded_rank": worst.rank,
        "peak_bytes": worst.total_bytes,
        "limit_bytes": worst.limit_bytes,
        "headroom_bytes": worst.headroom_bytes,
        "parameters": _parameters(costs),
        "bytes_per_parameter": _bytes_per_parameter(costs.training),
        "interleaving": placement.chunks,
        "layers_per_stage": list(layers),
        "per_rank": [_rank_document(costs, rank) for rank in ranks],
        "parts": _PARTS,
        "communication_buffers": buffer_documents(costs, worst.communication),
        "imbalance": _imbalance(costs, ranks),
        "what_would_fit": None if fits else what_would_fit(costs, request.training),
        "assumptions": [*_notes(costs), *notes_of(costs, ())],
        "warnings": _warnings(costs, worst),
    }


def _parameters(costs: CostModel) -> dict[str, Any]:
    counts = count_parameters(costs.model)
    return {
        "total": counts.total,
        "active": counts.active,
        "layer": counts.layer,
        "active_layer": counts.active_layer,
        "embedding": counts.embedding,
        "head": counts.head,
        "basis": "As published. total is what memory holds over all ranks (the vocabulary padded, "
        "a tied embedding twice); active is what one token passes through, which sets activations "
        "and time.",
    }


def _bytes_per_parameter(training: Training) -> dict[str, Any]:
    """What one parameter takes: each copy with its type, and over how many ranks ZeRO splits it."""
    states = training_state_bytes(training)
    replicas, stage = training.degrees.replicas, training.zero_stage

    def row(what: str, size: int, kind: str, splits_from: int) -> dict[str, Any]:
        ranks = replicas if stage >= splits_from else 1
        return {"what": what, "bytes": size, "type": kind, "split_over": ranks}

    gradient = "fp32" if states.gradient == 4 else training.precision
    rows = [
        row("parameter", states.parameter, training.precision, 3),
        row("gradient", states.gradient, gradient, 2),
        *(row(what, 4, "fp32", 1) for what in optimizer_copies(training)),
    ]
    return {
        "total": states.total,
        "on_each_rank": sum(each["bytes"] / each["split_over"] for each in rows),
        "copies": rows,
        "basis": "Megatron-LM, distributed optimizer (18 or 6 + 12/d in bf16, 20 or 4 + 16/d in "
        "fp16); ZeRO (Rajbhandari et al. 2020). Experts are split over the ranks that hold the "
        "same ones.",
    }


def optimizer_copies(training: Training) -> list[str]:
    """The fp32 numbers that the optimizer keeps of each parameter."""
    copies = []
    if training.precision != "fp32":
        copies.append("copy of the parameter")
    if training.precision == "fp16" and training.gradient_precision == "fp32":
        copies.append("copy of the gradient")
    moments = {
        "adam": ["first moment", "second moment"],
        "sgd_momentum": ["momentum"],
        "sgd": [],
    }
    return copies + moments[training.optimizer]


def _rank_document(costs: CostModel, rank: RankFootprint) -> dict[str, Any]:
    degrees = costs.training.degrees
    gpus = degrees.gpus_of_rank(rank.rank)
    last = rank.rank == degrees.pipeline - 1
    holds = ["embedding"] * (rank.rank == 0) + ["head"] * last
    return {
        "rank": rank.rank,
        "gpus": {"first": gpus[0], "last": gpus[-1]},
        "layers": rank.layers,
        "holds": holds,
        "parameters": rank.parameters,
        "micro_batches_in_flight": rank.micro_batches_in_flight,
        "micro_batches_in_flight_per_chunk": list(rank.held),
        "parameters_bytes": rank.parameters_bytes,
        "gradients_bytes": rank.gradients_bytes,
        "optimizer_bytes": rank.optimizer_bytes,
        "gathered_parameters_bytes": rank.gathered_parameters_bytes,
        "activations_bytes": rank.activations_bytes,
        "embedding_activations_bytes": rank.embedding_activations_bytes,
        "logits_bytes": rank.logits_bytes,
        "workspace_bytes": rank.workspace_bytes,
        "communication_buffers_bytes": rank.communication.total_bytes,
        "static_bytes": rank.static_bytes,
        "peak_at": "loss" if rank.peak_is_loss else "backward",
        "peak_allocated_bytes": rank.peak_allocated_bytes,
        "reserved_bytes": rank.reserved_bytes,
        "total_bytes": rank.total_bytes,
        "limit_bytes": rank.limit_bytes,
        "headroom_bytes": rank.headroom_bytes,
        "fits": rank.headroom_bytes >= 0,
    }


def _imbalance(costs: CostModel, ranks: Sequence[RankFootprint]) -> dict[str, Any]:
    """What embedding and head add to the ranks that have them, and what the partition does."""
    model, degrees = costs.model, costs.training.degrees
    first, last = ranks[0], ranks[-1]
    mean = sum(rank.total_bytes for rank in ranks) // len(ranks)
    mean_layers = model.layers / len(ranks)

    def end(rank: RankFootprint, parameters: int, activations: int, time_ns: int) -> dict[str, Any]:
        states = training_state_bytes(costs.training)
        return {
            "rank": rank.rank,
            "parameters": parameters,
            "states_bytes": states.on_rank(Shard(parameters), costs.training.zero_stage, degrees),
            "activations_bytes": activations,
            "compute_ns_per_micro_batch": time_ns,
            "layers": rank.layers,
            "rank_above_mean_bytes": rank.total_bytes - mean,
        }

    head = head_shard(model, degrees.tensor, shares_embedding=len(ranks) == 1)
    given = costs.training.layers_per_stage is not None
    return {
        "mean_bytes": mean,
        "largest_above_mean_bytes": max(rank.total_bytes for rank in ranks) - mean,
        "mean_layers": mean_layers,
        "embedding": end(
            first,
            embedding_shard(model, degrees.tensor),
            first.embedding_activations_bytes,
            costs.blocks.embedding.compute_ns,
        ),
        "head": end(last, head, last.logits_bytes, costs.blocks.head.compute_ns),
        "partition": "Layers per stage as given."
        if given
        else f"Layers per stage are balanced: the slowest rank as fast as can be with embedding "
        f"and head counted, then the fullest as empty as can be. The first rank has "
        f"{first.layers} and the last {last.layers} of {mean_layers:.4g} on average.",
    }


def _notes(costs: CostModel) -> list[Note]:
    training = costs.training
    open_interleaving = training.interleaving is None and training.degrees.pipeline > 1
    return [
        note(
            "order of operations",
            "1F1B" if (training.interleaving or 1) == 1 else "interleaved 1F1B",
            "Narayanan et al. 2021, Megatron-LM; the backward in one operation. Other schedules "
            "hold more or less, see POST /v1/pipeline-schedules."
            + (" Interleaving is open: one chunk per device is assumed." * open_interleaving),
        ),
        note("offloading", "none", "Not part of this estimate."),
        note(
            "how far off",
            "three runs of Megatron-LM: states -0.4, -4.7 and -5.5 %, peak -2.2, -0.2 and -2.6 %",
            "Golden values of its tests: 7 B parameters at sequence 8192 on A100s, with "
            "tensor_parallel 4, and with pipeline_parallel 4 and 8 chunks; Mixtral 8x7B on H100s. "
            "What it allocates beside this, about 1 GB with a pipeline, is left to the reserve.",
        ),
    ]


def _warnings(costs: CostModel, worst: RankFootprint) -> list[str]:
    training, warnings = costs.training, []
    pipeline = training.degrees.pipeline
    if (training.interleaving or 1) > 1 and training.micro_batches % pipeline:
        warnings.append(
            f"Megatron-LM interleaves only multiples of {pipeline} micro-batches; there are "
            f"{training.micro_batches}."
        )
    if nccl_bytes(costs) > costs.cluster.reserved_bytes:
        warnings.append(
            f"NCCL's buffers alone may take {gib(nccl_bytes(costs))}, more than the reserve of "
            f"{gib(costs.cluster.reserved_bytes)}: raise the cluster's reserved_bytes, or lower "
            "NCCL_MAX_NCHANNELS."
        )
    share = worst.headroom_bytes / worst.limit_bytes
    if 0 <= share < 0.05:
        warnings.append(
            f"Only {share:.1%} of rank {worst.rank} is left; the estimate is not that exact."
        )
    return warnings
