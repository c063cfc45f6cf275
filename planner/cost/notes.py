"""Every assumption behind a resolved problem, with its basis."""

from __future__ import annotations

from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import Candidate, CostModel
from planner.cost.degrees import in_words
from planner.cost.memory import boundary_bytes
from planner.cost.note import Note, note
from planner.cost.offload.notes import offload_notes
from planner.cost.parameters import count_parameters, vocabulary_shard
from planner.cost.training import Recomputation
from planner.sizes import gib

__all__ = ["Note", "notes_of"]

GB = 1e9

_FITTED = (
    "fitted with the other rates to iterations of four models on A100s (Korthikanti et al. 2022, "
    "table 5) and passes of four others (Qi et al. 2024)"
)


def notes_of(costs: CostModel, candidates: tuple[Candidate, ...]) -> list[Note]:
    """The assumptions that were in effect, for the reader of an answer."""
    return [
        *_model_notes(costs),
        *_cluster_notes(costs),
        *_training_notes(costs),
        *offload_notes(costs, candidates),
        *_stage_notes(costs, candidates),
        *_profile_notes(costs),
    ]


def _model_notes(costs: CostModel) -> list[Note]:
    model = costs.model
    counts = count_parameters(model)
    value = f"{counts.total:,}"
    if counts.active != counts.total:
        value += f", of which a token uses {counts.active:,}"
    notes = [
        note(
            "parameters", value, model.source or "Counted tensor by tensor from the model's sizes."
        )
    ]
    tensor = costs.training.degrees.tensor
    padded = vocabulary_shard(model, tensor) * tensor
    if padded != model.vocabulary:
        notes.append(
            note(
                "vocabulary",
                f"{model.vocabulary} padded to {padded}",
                "Megatron-LM pads it to a multiple of 128 x tensor_parallel.",
            )
        )
    if model.tied_embeddings and costs.training.degrees.pipeline > 1:
        notes.append(
            note(
                "tied embedding",
                "a copy on the first and on the last device",
                "Megatron-LM; the copies' gradients are summed in the epilogue.",
            )
        )
    dropout = "masks counted" if model.dropout else "none"
    notes.append(
        note("dropout", dropout, "GPT models train with dropout, gated (Llama-like) without.")
    )
    return notes


def _cluster_notes(costs: CostModel) -> list[Note]:
    cluster = costs.cluster
    efficiency = cluster.efficiency
    preset = cluster.gpu.source or "Given."
    link = "NVLink" if cluster.gpu.nvlink_bytes_per_s else "PCIe (no NVLink)"
    peak = cluster.gpu.peak_flop_per_s(costs.training.precision) or 0.0
    return [
        cluster.factors,
        note("GPU memory", gib(cluster.memory_bytes), preset),
        note(
            "reserved GPU memory",
            gib(cluster.reserved_bytes),
            "CUDA context, NCCL buffers, library workspaces and fragmentation; default 2 GiB; what "
            "a memory margin adds.",
        ),
        note(
            "matrix products",
            f"{efficiency.compute:.0%} of {peak / 1e12:g} TFLOP/s",
            f"Default 74 %: {_FITTED}.",
        ),
        note(
            "element-wise operators, norms and unfused attention scores",
            f"{cluster.hbm_bytes_per_s / GB:,.0f} GB/s of device memory",
            f"Peak x {efficiency.hbm:g}; default 70 %: {_FITTED}.",
        ),
        note(
            "between GPUs of a node",
            f"{link}, {cluster.link_bytes_per_s / GB:.1f} GB/s each way",
            f"Peak x {efficiency.nvlink:g} ({efficiency.pcie:g} over PCIe); collectives also pass "
            "through device memory once. Fitted to all-reduces of 1 GiB on 2, 4 and 8 A100s "
            "(vTrain).",
        ),
        note(
            "between nodes",
            f"{cluster.network_bytes_per_s / GB:.1f} GB/s each way per GPU",
            f"Peak x {efficiency.network:g}. A ring over several GPUs of each node uses the "
            "network interfaces of all of them.",
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
        note(
            "degrees",
            in_words(degrees) + (f", {idle} GPUs idle" if idle else ""),
            "Tensor ranks are neighbours, then context, data and pipeline ranks (Megatron-LM).",
        ),
        note(
            "batch",
            f"{training.micro_batches} micro-batches of {training.micro_batch_size} x "
            f"{training.sequence} tokens per replica, {training.global_batch_size} samples in all",
            "Given.",
        ),
        note(
            "bytes per parameter",
            f"{states.total} ({states.parameter} parameter, {states.gradient} gradient, "
            f"{states.optimizer} optimizer), ZeRO stage {training.zero_stage}",
            "Megatron-LM's distributed optimizer, ZeRO (Rajbhandari et al. 2020).",
        ),
        note(
            "attention",
            f"flash (scores not stored, {'causal half' if costs.model.causal else 'all'} computed)"
            if training.flash_attention
            else "scores stored, whole square computed",
            "FlashAttention-2 (Dao 2023); Korthikanti et al. 2022.",
        ),
        note(
            "sequence parallelism",
            "on" if training.sequence_parallel else "off",
            "Korthikanti et al. 2022; by default on with tensor parallelism.",
        ),
        *_parallel_notes(costs),
        note(
            "recomputed in the backward",
            recompute[training.recomputation],
            "Korthikanti et al. 2022, section 5; repeated in B, rebuilt a layer at a time.",
        ),
        note(
            "backward",
            "input and weight gradients apart" if training.split_backward else "in one operation",
            "Zero Bubble (Qi et al. 2024); by default one operation with full recomputation.",
        ),
    ]


def _parallel_notes(costs: CostModel) -> list[Note]:
    """What context and expert parallelism are taken to do, where there is any."""
    degrees, training = costs.training.degrees, costs.training
    notes = []
    if degrees.context > 1:
        notes.append(
            note(
                "context parallelism",
                f"{degrees.context} ranks share each sequence",
                "Keys and values go round a ring while attention works (Liu et al. 2023); only "
                "what takes longer than attention is counted.",
            )
        )
    if degrees.expert > 1:
        notes.append(
            note(
                "expert parallelism",
                f"{costs.model.experts // degrees.expert} of {costs.model.experts} experts per "
                f"rank, the busiest with {training.expert_load:g} times the mean of tokens",
                "Two all-to-alls per layer and direction; expert_load as given, 1 by default.",
            )
        )
    return notes


def _stage_notes(costs: CostModel, candidates: tuple[Candidate, ...]) -> list[Note]:
    layer = costs.blocks.layer
    size = boundary_bytes(costs.model, activation_shape(costs.training))
    notes = [
        note(
            "one layer",
            f"F {layer.forward_ns / 1e6:g} ms, B {layer.backward_input_ns / 1e6:g} ms, "
            f"W {layer.backward_weight_ns / 1e6:g} ms, {gib(layer.activation_bytes)} kept, "
            f"{gib(layer.weight_grad_bytes)} of them until W",
            "FLOPs of Narayanan et al. 2021 split as in Zero Bubble; sizes of Korthikanti et al.",
        ),
        note(
            "between stages",
            f"{gib(size)} per micro-batch and direction",
            "One layer's output; by tensor rank with sequence parallelism.",
        ),
    ]
    notes += [
        note(
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
            notes.append(note(f"profile, {field}", f"{value}", "Measured, given with the request."))
    return notes
