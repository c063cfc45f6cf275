"""One plan as JSON: what it is, how fast it is, and what each rank holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.step import flops_utilization, model_flops
from planner.training.evaluate import Plan
from planner.training.reasons import breakdown
from planner.training.spec import TrainingSpec
from planner.training.trainings import document_of

BASIS = {
    "compute_ns": "micro-batches x the busiest rank's F + B + W with its layers' collectives",
    "bubble_ns": "F + B + W of one micro-batch on all other ranks, over the chunks per rank; "
    "longer where every schedule of the configuration has to idle for longer",
    "transfer_ns": "one micro-batch through all stages and back, over the chunks per rank",
    "epilogue_ns": "the longest gradient reduction and optimizer step of any rank",
    "offload_wait_ns": "what the busiest link to the host needs beyond the busiest rank's work",
    "bound_ns": "no schedule of the configuration is shorter: the best bound of its pipeline "
    "problem that is known",
}


def plan_document(spec: TrainingSpec, plan: Plan, training: Mapping[str, Any]) -> dict[str, Any]:
    """One plan: what it is, how fast, and what each rank holds. `training` is to be posted."""
    own = plan.training
    return {
        **_figures(spec, plan),
        "micro_batches": own.micro_batches,
        "sequence_parallel": own.sequence_parallel,
        "layers_per_stage": list(own.layers_per_stage or ()),
        "expert_load": own.expert_load if own.degrees.expert > 1 else None,
        "step_time": {
            **breakdown(plan),
            "bound_ns": plan.bound_ns,
            "basis": BASIS,
        },
        "fits": plan.headroom_bytes >= 0,
        "offloading": _offloading(plan),
        "memory_per_rank": _memory(plan),
        "training": dict(training),
    }


def _figures(spec: TrainingSpec, plan: Plan) -> dict[str, Any]:
    own, seconds = plan.training, plan.total_ns / 1e9
    samples = spec.global_batch_size
    peak = spec.cluster.gpu.peak_flop_per_s(own.precision)
    assert peak is not None
    flops = model_flops(spec.model, own.sequence, samples)
    return {
        "devices": plan.gpus,
        "tensor_parallel": own.degrees.tensor,
        "pipeline_parallel": own.degrees.pipeline,
        "data_parallel": own.degrees.data,
        "context_parallel": own.degrees.context,
        "expert_parallel": own.degrees.expert,
        "micro_batch_size": own.micro_batch_size,
        "interleaving": own.interleaving,
        "zero_stage": own.zero_stage,
        "recomputation": own.recomputation.value,
        "offload": own.offload,
        "step_time_ns": plan.total_ns,
        "samples_per_s": samples / seconds,
        "tokens_per_s": samples * own.sequence / seconds,
        "mfu": flops_utilization(flops, plan.total_ns, plan.gpus, peak),
        "peak_bytes": plan.peak_bytes,
        "limit_bytes": spec.cluster.memory_bytes,
        "headroom_bytes": plan.headroom_bytes,
    }


def point_document(spec: TrainingSpec, plan: Plan) -> dict[str, Any]:
    """A point of the Pareto front: its figures, and the training to post."""
    return {**_figures(spec, plan), "training": document_of(spec, plan.training)}


def _memory(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank.rank,
            "layers": rank.layers,
            "micro_batches_in_flight": rank.micro_batches_in_flight,
            "parameters_bytes": rank.parameters_bytes,
            "gradients_bytes": rank.gradients_bytes,
            "optimizer_bytes": rank.optimizer_bytes,
            "gathered_parameters_bytes": rank.gathered_parameters_bytes,
            "activations_bytes": rank.activations_bytes,
            "embedding_activations_bytes": rank.embedding_activations_bytes,
            "logits_bytes": rank.logits_bytes,
            "workspace_bytes": rank.workspace_bytes,
            "communication_buffers_bytes": rank.communication.total_bytes,
            "reserved_bytes": rank.reserved_bytes,
            "offloaded_bytes": rank.total_bytes - size,
            "total_bytes": size,
            "headroom_bytes": rank.limit_bytes - size,
        }
        for rank, size in zip(plan.ranks, plan.rank_bytes, strict=True)
    ]


def _offloading(plan: Plan) -> dict[str, Any] | None:
    use = plan.offload
    if use is None:
        return None
    return {
        "share_by_rank": list(use.shares),
        "busiest_link": use.busiest_link,
        "wait_ns": plan.offload_wait_ns,
    }
