"""A plan as the JSON that `deepspeed.initialize` takes."""

from __future__ import annotations

import json
from typing import Any

from planner.cost.training import Recomputation
from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import NEEDS_OFFLOADS, described, hindrance_of, plan_of
from planner.export.run_shape import Run, RunShape


def write(_: Document, source: Source) -> str:
    """The file. JSON has no comments: what it leaves out is what the format says."""
    shape, run = described(source)
    training, degrees = run.training, run.training.degrees
    settings: dict[str, Any] = {
        "train_batch_size": training.global_batch_size,
        "train_micro_batch_size_per_gpu": training.micro_batch_size,
        "gradient_accumulation_steps": shape.micro_batches,
        "zero_optimization": {"stage": training.zero_stage},
    }
    if training.precision != "fp32":
        settings[training.precision] = {"enabled": True}
        same = training.precision if training.gradient_precision == "same" else "fp32"
        settings["data_types"] = {"grad_accum_dtype": same}
    if degrees.tensor > 1:
        settings["tensor_parallel"] = {"autotp_size": degrees.tensor}
    if degrees.pipeline > 1:
        is_full = training.recomputation is Recomputation.FULL
        settings["pipeline"] = {
            "stages": degrees.pipeline,
            "activation_checkpoint_interval": 1 if is_full else 0,
        }
    return json.dumps(settings, indent=2) + "\n"


def hindrance(shape: RunShape, run: Run) -> str | None:
    """Why DeepSpeed cannot run a plan."""
    training, degrees = run.training, run.training.degrees
    if degrees.pipeline > 1 and training.zero_stage > 1:
        return (
            f"DeepSpeed has no ZeRO stage {training.zero_stage} beside a pipeline: plan with "
            "zero_stage 0 or 1, or with pipeline_parallel: 1."
        )
    if shape.interleaving != 1:
        return "DeepSpeed has one stage per rank: plan with interleaving: 1."
    if degrees.context > 1:
        return "DeepSpeed has no ring attention: plan with context_parallel: 1."
    if degrees.expert > 1:
        return "DeepSpeed's JSON has no expert parallelism: plan with expert_parallel: 1."
    if shape.has_offloads:
        return NEEDS_OFFLOADS.format(framework="DeepSpeed")
    return None


DEEPSPEED_JSON = Format(
    name="deepspeed-json",
    title="Configuration of DeepSpeed (JSON)",
    media_type="application/json",
    extension="deepspeed.json",
    carries="Batch and micro-batches, ZeRO stage, precision, tensor parallel size, number of "
    "pipeline stages.",
    leaves_out="The schedule (DeepSpeed runs its own 1F1B), the layers of each stage, sequence "
    "parallelism, recomputation without a pipeline and the selective one, the attention kernel, "
    "the optimizer, the model. Plans with interleaving, context or expert parallelism, offloads of "
    "activations, or ZeRO 2 or 3 beside a pipeline are refused.",
    written_for="DeepSpeed 0.19.8",
    part=plan_of,
    hindrance=hindrance_of(hindrance),
    write=write,
)
