"""How long a training step takes, what it is made of and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.note import Note, note
from planner.cost.notes import notes_of
from planner.cost.step import Step, flops_utilization, hardware_flops, model_flops, step_of
from planner.estimates.ranks import estimated_placement, rank_footprints, tightest
from planner.estimates.request import EstimateRequest, read_costs, read_request
from planner.estimates.step_time.parts import busiest_rank, step_parts, why_slowest
from planner.sizes import gib

_PARTS = {
    "matrix_products": "Matrix products of the busiest rank, at efficiency.compute of the peak.",
    "memory_bound_operators": "Normalisation, activation functions, residuals, unfused attention "
    "scores, cross-entropy and rounding, at efficiency.hbm of device memory.",
    "recomputation": "What the backward computes again, its collectives included.",
    "tensor_collectives": "All-reduces (or their halves) of tensor parallelism, waited for.",
    "context_ring": "Keys and values of other context ranks, beyond what attention hides.",
    "expert_all_to_all": "Tokens to their experts and back.",
    "zero_collectives": "ZeRO stages 2 and 3: gathering parameters and scattering gradients in "
    "every micro-batch.",
    "compute": "Computation of the busiest rank, as measured.",
    "bubble": "What the busiest rank waits for the others' first and last micro-batch, and for "
    "whatever else no schedule can do meanwhile.",
    "transfers": "Hops of the first and the last micro-batch between ranks.",
    "gradient_reduction": "Adding up gradients over replicas after the last micro-batch, not "
    "overlapped; with ZeRO stages 1 and 2 also gathering parameters.",
    "optimizer": "Optimizer step, bound by device memory.",
    "epilogue": "Gradient reduction and optimizer step, as measured.",
}


def estimate_step_time(body: Mapping[str, Any]) -> dict[str, Any]:
    """The closed-form time of a step under 1F1B, and rates.

    Raises `SpecError` that names the field at fault.
    """
    request = read_request(EstimateRequest, body)
    costs = read_costs(request)
    placement = estimated_placement(costs)
    step = step_of(costs, placement.chunks, costs.layers_per_stage(placement))
    memory = tightest(rank_footprints(costs))
    breakdown = _breakdown(costs, step)
    return {
        "step_time_ns": step.time.total_ns,
        **rates(costs, step),
        "gpus": {
            "used": costs.training.degrees.gpus,
            "idle": costs.cluster.gpus - costs.training.degrees.gpus,
        },
        "fits": memory.headroom_bytes >= 0,
        "peak_bytes": memory.total_bytes,
        "breakdown": breakdown,
        "compute_ns": step.time.compute_ns,
        "bubble_ns": step.time.bubble_ns,
        "bubble_share": step.time.bubble_ns / step.time.total_ns,
        "transfer_ns": step.time.transfer_ns,
        "epilogue_ns": step.time.epilogue_ns,
        "bound_ns": step.time.bound_ns,
        "bound_basis": "No schedule of this placement is faster, however much memory there is: "
        "what has to come before a rank's computation, that, and what has to follow it.",
        "limited_by": _limited_by(breakdown),
        "interleaving": step.chunks,
        "layers_per_stage": list(step.layers_per_stage),
        "per_rank": [_rank_document(costs, step, rank) for rank in range(len(step.work_ns))],
        "per_stage": _stage_documents(step),
        "slowest_rank": _slowest_document(costs, step),
        "assumptions": [*_notes(), *notes_of(costs, ())],
        "warnings": _warnings(costs, memory),
    }


def rates(costs: CostModel, step: Step) -> dict[str, Any]:
    """Tokens and samples per second and how much of the GPUs' peak is used."""
    training = costs.training
    peak = costs.cluster.gpu.peak_flop_per_s(training.precision)
    if peak is None:
        raise ValueError(f"{costs.cluster.gpu.name} has no {training.precision} rate")
    gpus, step_ns = training.degrees.gpus, step.time.total_ns
    samples = training.global_batch_size
    flops = model_flops(costs.model, training.sequence, samples)
    return {
        "tokens_per_s": samples * training.sequence / (step_ns / 1e9),
        "samples_per_s": samples / (step_ns / 1e9),
        "mfu": flops_utilization(flops, step_ns, gpus, peak),
        "hfu": flops_utilization(hardware_flops(costs), step_ns, gpus, peak),
        "model_flop_per_s_per_gpu": flops / (step_ns / 1e9) / gpus,
    }


def _breakdown(costs: CostModel, step: Step) -> list[dict[str, Any]]:
    """Parts that add up to the step, the largest first."""
    total_ns = step.time.total_ns
    return [
        {"what": name, "ns": size, "share": size / total_ns, "basis": _PARTS[name]}
        for name, size in sorted(step_parts(costs, step).items(), key=lambda part: -part[1])
        if size
    ]


def _limited_by(breakdown: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest part that does not train: whatever is left beside the matrix products."""
    first = breakdown[0]
    others = [part for part in breakdown if part["what"] not in ("matrix_products", "compute")]
    loss = others[0] if others else None
    return {
        "largest": first["what"],
        "largest_share": first["share"],
        "largest_loss": loss and loss["what"],
        "largest_loss_share": loss and loss["share"],
        "lost_share": sum(part["share"] for part in others),
    }


def _rank_document(costs: CostModel, step: Step, rank: int) -> dict[str, Any]:
    pipeline = costs.training.degrees.pipeline
    own = [stage for stage in step.problem.stages if stage.device == rank]
    return {
        "rank": rank,
        "layers": sum(step.layers_per_stage[rank::pipeline]),
        "forward_ns": sum(stage.forward_ns[0] for stage in own),
        "backward_input_ns": sum(stage.backward_input_ns[0] for stage in own),
        "backward_weight_ns": sum(stage.backward_weight_ns[0] for stage in own),
        "work_ns": step.work_ns[rank],
        "epilogue_ns": step.problem.devices[rank].epilogue_ns,
    }


def _stage_documents(step: Step) -> list[dict[str, Any]]:
    return [
        {
            "stage": number,
            "rank": stage.device,
            "name": stage.name,
            "layers": step.layers_per_stage[number],
            "forward_ns": stage.forward_ns[0],
            "backward_input_ns": stage.backward_input_ns[0],
            "backward_weight_ns": stage.backward_weight_ns[0],
        }
        for number, stage in enumerate(step.problem.stages)
    ]


def _slowest_document(costs: CostModel, step: Step) -> dict[str, Any]:
    rank, work = busiest_rank(step), step.work_ns
    return {
        "rank": rank,
        "work_ns": work[rank],
        "above_mean": work[rank] * len(work) / max(1, sum(work)) - 1,
        "why": why_slowest(costs, step),
    }


def _notes() -> list[Note]:
    return [
        note(
            "step time",
            "1F1B, every micro-batch alike; nothing overlaps but the pipeline's own ranks",
            "Narayanan et al. 2021, section 2.2. Gradient reduction, tensor collectives and ZeRO's "
            "collectives are waited for; frameworks that overlap them are faster.",
        ),
        note(
            "how far off",
            "iterations of 22 B, 175 B, 530 B and 1 T parameters within 6 %, MFU within 2 points; "
            "3.6 B on 64 GPUs within 6 % at 8 samples per micro-batch, 28 % too fast at 2; four "
            "runs of Megatron-LM's tests 18 to 25 % too fast",
            "Korthikanti et al. 2022, table 5, to which the rates were fitted; vTrain's "
            "measurements and Megatron-LM's golden values (7 B with deterministic kernels, Mixtral "
            "8x7B), to which they were not. Launch overhead of small operators is left out, and "
            "waiting for the slowest of many GPUs.",
        ),
        note(
            "MFU and HFU",
            "of the dense peak of the GPUs in use",
            "MFU counts forward and backward over the whole square of scores (Narayanan et al. "
            "2021, Chowdhery et al. 2022); HFU what is executed, recomputation included and only "
            "half of a causal model's scores with flash attention.",
        ),
    ]


def _warnings(costs: CostModel, memory: RankFootprint) -> list[str]:
    training, warnings = costs.training, []
    if memory.headroom_bytes < 0:
        warnings.append(
            f"It does not fit: rank {memory.rank} lacks {gib(-memory.headroom_bytes)}. POST "
            "/v1/memory-estimates says what would help."
        )
    if training.micro_batches < training.degrees.pipeline:
        warnings.append(
            f"{training.micro_batches} micro-batches on {training.degrees.pipeline} ranks: the "
            "pipeline is never full."
        )
    return warnings
