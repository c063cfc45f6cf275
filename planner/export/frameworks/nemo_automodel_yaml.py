"""A plan as the YAML of a NeMo AutoModel recipe: its sections for parallelism and batch."""

from __future__ import annotations

from typing import Any

import yaml

from planner.cost.model import PositionEmbeddings
from planner.cost.training import Recomputation
from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import (
    NEEDS_OFFLOADS,
    Feature,
    csv_name,
    described,
    header,
    hindrance_of,
    module_names,
    plan_of,
    unsaid,
)
from planner.export.run_shape import Arrangement, Run, RunShape

SCHEDULES = {
    Arrangement.ONE_CHUNK: "1f1b",
    Arrangement.LOOPED: "interleaved1f1b",
    Arrangement.V_SHAPE: "zbvzerobubble",
}
FULL_PRECISION = {
    "_target_": "torch.distributed.fsdp.MixedPrecisionPolicy",
    "param_dtype": "float32",
    "reduce_dtype": "float32",
}


def write(_: Document, source: Source) -> str:
    """The sections `distributed` and `step_scheduler`, to be merged into a recipe."""
    shape, run = described(source)
    training = run.training
    passes = shape.micro_batches if shape.pipeline_parallel > 1 else 1
    sections = {
        "distributed": _distributed(shape, run, source),
        "step_scheduler": {
            "global_batch_size": training.global_batch_size,
            "local_batch_size": training.micro_batch_size * passes,
        },
    }
    text = yaml.safe_dump(sections, sort_keys=False, width=100)
    left = _left_out(shape, run, source)
    return f"{header(NEMO_AUTOMODEL_YAML, shape, run, source, left)}\n{text}"


def hindrance(shape: RunShape, run: Run) -> str | None:
    """Why NeMo AutoModel cannot run a plan."""
    if shape.has_offloads:
        return NEEDS_OFFLOADS.format(framework="NeMo AutoModel")
    if run.training.precision == "fp16":
        return "NeMo AutoModel trains in bf16 or fp32: plan with training.precision: bf16."
    if shape.micro_batches < shape.pipeline_parallel > 1:
        return (
            "NeMo AutoModel needs as many micro-batches as pipeline ranks "
            f"({shape.micro_batches} < {shape.pipeline_parallel}): plan with more micro-batches."
        )
    return None


def _distributed(shape: RunShape, run: Run, source: Source) -> dict[str, Any]:
    training, degrees = run.training, run.training.degrees
    section: dict[str, Any] = {
        "strategy": "ddp" if _is_replicated(run) else "fsdp2",
        "dp_size": degrees.data,
        "tp_size": degrees.tensor,
        "cp_size": degrees.context,
        "pp_size": degrees.pipeline,
        "ep_size": degrees.expert,
        "activation_checkpointing": training.recomputation is not Recomputation.NONE,
    }
    if not _is_replicated(run):
        section["sequence_parallel"] = training.sequence_parallel
        section["reshard_after_forward"] = training.zero_stage == 3
        if training.precision == "fp32":
            section["mp_policy"] = FULL_PRECISION
    if degrees.pipeline > 1:
        section["pipeline"] = _pipeline(shape, run, source)
    return section


def _pipeline(shape: RunShape, run: Run, source: Source) -> dict[str, Any]:
    training, csv = run.training, csv_name(shape, source)
    every = (
        ("model.rotary_emb",) if run.model.position_embeddings is PositionEmbeddings.ROTARY else ()
    )
    return {
        "pp_schedule": SCHEDULES[shape.arrangement],
        **({} if csv is None else {"pp_schedule_csv": csv}),
        "pp_microbatch_size": training.micro_batch_size,
        "pp_batch_size": training.micro_batch_size * shape.micro_batches,
        "module_fqns_per_model_part": module_names(
            run, ("model.embed_tokens",), "model.layers.", ("model.norm", "lm_head"), every
        ),
    }


def _left_out(shape: RunShape, run: Run, source: Source) -> list[str]:
    training, degrees = run.training, run.training.degrees
    said = {Feature.ARRANGEMENT, Feature.LAYERS, Feature.RECOMPUTATION}
    if csv_name(shape, source) is not None:
        said |= {Feature.ORDER, Feature.SPLIT_BACKWARD}
    if not _is_replicated(run):
        said.add(Feature.SEQUENCE_PARALLEL)
    if training.gradient_precision == "fp32":
        said.add(Feature.GRADIENT_PRECISION)
    sentences = unsaid(shape, run, said)
    if training.recomputation is Recomputation.SELECTIVE:
        sentences.append("That only attention is recomputed: whole layers are.")
    if training.zero_stage == 1 and degrees.replicas > 1:
        sentences.append("ZeRO stage 1: FSDP2 shards gradients too, as stage 2 does.")
    if training.zero_stage == 0 and degrees.replicas > 1 and not _is_replicated(run):
        sentences.append("Whole states on each rank: beside other parallelism FSDP2 shards them.")
    return sentences


def _is_replicated(run: Run) -> bool:
    """Whether data parallelism is all that there is, which DDP does; FSDP2 does the rest."""
    degrees = run.training.degrees
    return run.training.zero_stage == 0 and degrees.gpus == degrees.data and degrees.expert == 1


NEMO_AUTOMODEL_YAML = Format(
    name="nemo-automodel-yaml",
    title="Sections for a NeMo AutoModel recipe (YAML)",
    media_type="application/yaml",
    extension="nemo.yaml",
    carries="Degrees, batch, modules of each stage (named as in Hugging Face's Llama), "
    "recomputation, sharding of states; the schedule by its torch-csv.",
    leaves_out="Model, optimizer, data and learning rate. What of the plan it cannot say is listed "
    "in it; plans that offload activations are refused.",
    written_for="NeMo AutoModel 0.7.0",
    part=plan_of,
    hindrance=hindrance_of(hindrance),
    write=write,
)
