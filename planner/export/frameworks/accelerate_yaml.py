"""A plan as the YAML that `accelerate launch --config_file` takes."""

from __future__ import annotations

from typing import Any

import yaml

from planner.cost.training import Recomputation
from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import (
    NEEDS_OFFLOADS,
    Feature,
    described,
    header,
    hindrance_of,
    plan_of,
    unsaid,
)
from planner.export.run_shape import Run, RunShape

LAUNCHER = "accelerate launch --config_file THIS_FILE on each of {nodes} nodes"


def write(_: Document, source: Source) -> str:
    """The file; a pipeline is left to accelerate's Megatron-LM plugin."""
    shape, run = described(source)
    with_pipeline = shape.pipeline_parallel > 1
    settings = _launch(run) | (_megatron(shape, run) if with_pipeline else _own(run))
    text = yaml.safe_dump(settings, sort_keys=False)
    left = _left_out(shape, run)
    return f"{header(ACCELERATE_YAML, shape, run, source, left, LAUNCHER)}\n{text}"


def hindrance(shape: RunShape, run: Run) -> str | None:
    """Why accelerate cannot run a plan."""
    training, degrees = run.training, run.training.degrees
    if shape.has_offloads:
        return NEEDS_OFFLOADS.format(framework="accelerate")
    if degrees.pipeline > 1:
        return _pipeline_hindrance(shape, run)
    if degrees.expert > 1:
        return "accelerate's file has no expert parallelism: plan with expert_parallel: 1."
    if training.zero_stage == 0 and degrees.data > 1 and degrees.tensor * degrees.context > 1:
        return (
            "accelerate has no replicas beside tensor or context parallelism, only shards: plan "
            "with zero_stage 2 or 3."
        )
    return None


def _pipeline_hindrance(shape: RunShape, run: Run) -> str | None:
    if shape.interleaving != 1:
        return "accelerate has one stage per rank: plan with interleaving: 1."
    if len(set(run.layers_per_stage)) > 1:
        return (
            "accelerate gives every stage as many layers: plan with training.layers_per_stage all "
            "alike, or with pipeline_parallel: 1."
        )
    if run.training.zero_stage > 1:
        return (
            f"accelerate has no ZeRO stage {run.training.zero_stage} beside a pipeline: plan with "
            "zero_stage 0 or 1, or with pipeline_parallel: 1."
        )
    return None


def _launch(run: Run) -> dict[str, Any]:
    precision = run.training.precision
    return {
        "compute_environment": "LOCAL_MACHINE",
        "num_machines": run.nodes,
        "num_processes": run.gpus,
        "mixed_precision": "no" if precision == "fp32" else precision,
    }


def _own(run: Run) -> dict[str, Any]:
    """Data, tensor and context parallelism of accelerate itself."""
    training, degrees = run.training, run.training.degrees
    is_sharded = _is_sharded(run)
    settings: dict[str, Any] = {
        "distributed_type": "FSDP" if is_sharded else "MULTI_GPU" if run.gpus > 1 else "NO"
    }
    if is_sharded:
        settings["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": training.zero_stage == 3,
            "fsdp_offload_params": False,
            "fsdp_activation_checkpointing": training.recomputation is Recomputation.FULL,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        }
    if is_sharded or degrees.tensor > 1:
        settings["parallelism_config"] = {
            "parallelism_config_dp_replicate_size": 1,
            "parallelism_config_dp_shard_size": degrees.data,
            "parallelism_config_tp_size": degrees.tensor,
            "parallelism_config_cp_size": degrees.context,
        }
    return settings


def _megatron(shape: RunShape, run: Run) -> dict[str, Any]:
    training, degrees = run.training, run.training.degrees
    config: dict[str, Any] = {
        "megatron_lm_tp_degree": degrees.tensor,
        "megatron_lm_pp_degree": degrees.pipeline,
        "megatron_lm_num_micro_batches": shape.micro_batches,
        "megatron_lm_sequence_parallelism": training.sequence_parallel,
        "megatron_lm_use_distributed_optimizer": training.zero_stage == 1,
        "megatron_lm_context_parallel_size": degrees.context,
        "megatron_lm_expert_model_parallel_size": degrees.expert,
        "megatron_lm_gradient_clipping": 1.0,
    }
    if training.recomputation is Recomputation.FULL:
        config |= {
            "megatron_lm_recompute_granularity": "full",
            "megatron_lm_recompute_method": "uniform",
            "megatron_lm_recompute_num_layers": 1,
        }
    if training.recomputation is Recomputation.SELECTIVE:
        config["megatron_lm_recompute_activations"] = True
    return {"distributed_type": "MEGATRON_LM", "megatron_lm_config": config}


def _left_out(shape: RunShape, run: Run) -> list[str]:
    training, degrees = run.training, run.training.degrees
    with_pipeline = degrees.pipeline > 1
    said = {Feature.LAYERS}
    if with_pipeline:
        said |= {Feature.SEQUENCE_PARALLEL, Feature.RECOMPUTATION}
    elif training.recomputation is Recomputation.NONE or (
        training.recomputation is Recomputation.FULL and _is_sharded(run)
    ):
        said.add(Feature.RECOMPUTATION)
    sentences = unsaid(shape, run, said)
    sentences.append(
        f"The batch: give the data loader batch_size={training.micro_batch_size}"
        + (
            "."
            if with_pipeline
            else f" and Accelerator gradient_accumulation_steps={shape.micro_batches}."
        )
    )
    if not with_pipeline and training.zero_stage == 1 and degrees.data > 1:
        sentences.append("ZeRO stage 1: FSDP2 shards gradients too, as stage 2 does.")
    if not with_pipeline and training.zero_stage == 0 and degrees.context > 1:
        sentences.append("Whole states on each rank: FSDP2 shards them over context ranks.")
    if run.nodes > 1:
        sentences.append("machine_rank, main_process_ip and main_process_port of each node.")
    return sentences


def _is_sharded(run: Run) -> bool:
    """Context parallelism of accelerate needs FSDP2."""
    degrees = run.training.degrees
    return degrees.context > 1 or (run.training.zero_stage > 0 and degrees.data > 1)


ACCELERATE_YAML = Format(
    name="accelerate-yaml",
    title="Configuration of accelerate (YAML)",
    media_type="application/yaml",
    extension="accelerate.yaml",
    carries="Number of processes, degrees, sharding of states, precision, full recomputation; a "
    "pipeline of equal stages by accelerate's Megatron-LM plugin.",
    leaves_out="The schedule, model, optimizer and data. What of the plan it cannot say is listed "
    "in it; offloads of activations, interleaving, uneven stages, and ZeRO 2 or 3 beside a "
    "pipeline are refused.",
    written_for="accelerate 1.15",
    part=plan_of,
    hindrance=hindrance_of(hindrance),
    write=write,
)
