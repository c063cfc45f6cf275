"""Every assumption behind a resolved problem, with its basis."""

from __future__ import annotations

from typing import TypedDict

from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import Candidate, CostModel
from planner.cost.memory import boundary_bytes
from planner.cost.parameters import count_parameters, vocabulary_shard
from planner.cost.training import Recomputation

GB = 1e9


class Note(TypedDict):
    """One assumption: what, its value, and what it rests on."""

    what: str
    value: str
    basis: str


def notes_of(costs: CostModel, candidates: tuple[Candidate, ...]) -> list[Note]:
    """The assumptions that were in effect, for the reader of an answer."""
    return [
        *_model_notes(costs),
        *_cluster_notes(costs),
        *_training_notes(costs),
        *_stage_notes(costs, candidates),
        *_profile_notes(costs),
    ]


def _note(what: str, value: str, basis: str) -> Note:
    return {"what": what, "value": value, "basis": basis}


def _model_notes(costs: CostModel) -> list[Note]:
    model = costs.model
    counts = count_parameters(model)
    value = f"{counts.total:,}"
    if counts.active != counts.total:
        value += f", of which a token uses {counts.active:,}"
    notes = [
        _note(
            "parameters", value, model.source or "Counted tensor by tensor from the model's sizes."
        )
    ]
    tensor = costs.training.degrees.tensor
    padded = vocabulary_shard(model, tensor) * tensor
    if padded != model.vocabulary:
        notes.append(
            _note(
                "vocabulary",
                f"{model.vocabulary} padded to {padded}",
                "Megatron-LM pads it to a multiple of 128 x tensor_parallel.",
            )
        )
    if model.tied_embeddings and costs.training.degrees.pipeline > 1:
        notes.append(
            _note(
                "tied embedding",
                "a copy on the first and on the last device",
                "Megatron-LM; the copies' gradients are summed in the epilogue.",
            )
        )
    dropout = "masks counted" if model.dropout else "none"
    notes.append(
        _note("dropout", dropout, "GPT models train with dropout, gated (Llama-like) without.")
    )
    return notes


def _cluster_notes(costs: CostModel) -> list[Note]:
    cluster = costs.cluster
    efficiency = cluster.efficiency
    preset = cluster.gpu.source or "Given."
    link = "NVLink" if cluster.gpu.nvlink_bytes_per_s else "PCIe (no NVLink)"
    peak = cluster.gpu.peak_flop_per_s(costs.training.precision) or 0.0
    limit = cluster.host_memory_bytes
    shared = sum(name is not None for name in costs.links.link_of_rank)
    return [
        _note("GPU memory", f"{cluster.memory_bytes:,} bytes", preset),
        _note(
            "reserved GPU memory",
            f"{cluster.reserved_bytes:,} bytes",
            "CUDA context, NCCL buffers, library workspaces and fragmentation; default 2 GiB.",
        ),
        _note(
            "compute rate",
            f"{efficiency.compute:.0%} of {peak / 1e12:g} TFLOP/s",
            "Default 50 %: Megatron-LM reports 42-57 % of the A100's peak for whole iterations "
            "(Korthikanti et al. 2022, table 5), Zero Bubble's profiled stages 40-65 %. Memory "
            "bound operators are part of it.",
        ),
        _note(
            "between GPUs of a node",
            f"{link}, {cluster.link_bytes_per_s / GB:.1f} GB/s each way",
            f"Peak x {efficiency.nvlink:g} ({efficiency.pcie:g} over PCIe); 80-88 % is usual.",
        ),
        _note(
            "between nodes",
            f"{cluster.network_bytes_per_s / GB:.1f} GB/s each way per GPU",
            f"Peak x {efficiency.network:g}.",
        ),
        _note(
            "between GPU and host",
            f"{cluster.host_bytes_per_s / costs.links.sharers / GB:.1f} GB/s each way",
            f"PCIe peak x {efficiency.pcie:g}, shared by {costs.links.sharers} GPU(s) of a rank.",
        ),
        _note(
            "shared host links",
            f"{shared} of {len(costs.links.link_of_rank)} ranks share theirs",
            "pcie_switches or pcie_topology, else as in the GPU's usual machine.",
        ),
        _note(
            "host memory",
            "no limit" if limit is None else f"{limit // costs.links.gpus_per_host:,} bytes",
            f"Per GPU of a rank: a node's memory over {costs.links.gpus_per_host}.",
        ),
    ]


def _training_notes(costs: CostModel) -> list[Note]:
    training, degrees = costs.training, costs.training.degrees
    states = training_state_bytes(training)
    recompute = {
        Recomputation.NONE: "nothing",
        Recomputation.SELECTIVE: "attention scores"
        if not training.flash_attention
        else "nothing more than flash attention does",
        Recomputation.FULL: "each layer's forward",
    }
    idle = costs.cluster.gpus - degrees.gpus
    return [
        _note(
            "degrees",
            f"pipeline {degrees.pipeline} x tensor {degrees.tensor} x data {degrees.data}"
            + (f", {idle} GPUs idle" if idle else ""),
            "Tensor ranks are neighbours, then data ranks, then pipeline ranks (Megatron-LM).",
        ),
        _note(
            "batch",
            f"{training.micro_batches} micro-batches of {training.micro_batch_size} x "
            f"{training.sequence} tokens per replica, {training.global_batch_size} samples in all",
            "Given.",
        ),
        _note(
            "bytes per parameter",
            f"{states.total} ({states.parameter} parameter, {states.gradient} gradient, "
            f"{states.optimizer} optimizer), ZeRO stage {training.zero_stage}",
            "Megatron-LM's distributed optimizer, ZeRO (Rajbhandari et al. 2020).",
        ),
        _note(
            "attention",
            f"flash (scores not stored, {'causal half' if costs.model.causal else 'all'} computed)"
            if training.flash_attention
            else "scores stored, whole square computed",
            "FlashAttention-2 (Dao 2023); Korthikanti et al. 2022.",
        ),
        _note(
            "sequence parallelism",
            "on" if training.sequence_parallel else "off",
            "Korthikanti et al. 2022; by default on with tensor parallelism.",
        ),
        _note(
            "recomputed in the backward",
            recompute[training.recomputation],
            "Korthikanti et al. 2022, section 5; repeated in B, rebuilt a layer at a time.",
        ),
        _note(
            "backward",
            "input and weight gradients apart" if training.split_backward else "in one operation",
            "Zero Bubble (Qi et al. 2024); by default one operation with full recomputation.",
        ),
    ]


def _stage_notes(costs: CostModel, candidates: tuple[Candidate, ...]) -> list[Note]:
    layer = costs.blocks.layer
    size = boundary_bytes(costs.model, activation_shape(costs.training))
    notes = [
        _note(
            "one layer",
            f"F {layer.forward_ns / 1e6:g} ms, B {layer.backward_input_ns / 1e6:g} ms, "
            f"W {layer.backward_weight_ns / 1e6:g} ms, {layer.activation_bytes:,} bytes kept, "
            f"{layer.weight_grad_bytes:,} of them until W",
            "FLOPs of Narayanan et al. 2021 split as in Zero Bubble; sizes of Korthikanti et al.",
        ),
        _note(
            "between stages",
            f"{size:,} bytes per micro-batch and direction",
            "One layer's output; by tensor rank with sequence parallelism.",
        ),
    ]
    notes += [
        _note(
            f"partition, {candidate.placement}",
            " ".join(str(count) for count in candidate.layers_per_stage),
            "Layers per stage: least time of the slowest device with embedding and head, then "
            "least memory.",
        )
        for candidate in candidates
    ]
    return notes


def _profile_notes(costs: CostModel) -> list[Note]:
    given = costs.training.profile.model_dump(exclude_none=True)
    notes = []
    for field, value in given.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {number:,}" for name, number in value.items())
        if value != "":
            notes.append(
                _note(f"profile, {field}", f"{value}", "Measured, given with the request.")
            )
    return notes
