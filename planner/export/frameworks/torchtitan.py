"""What both forms of torchtitan's configuration say of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from planner.cost.model import Model, read_model
from planner.cost.training import Recomputation
from planner.export.format import Source
from planner.export.frameworks.common import (
    NEEDS_OFFLOADS,
    Feature,
    csv_name,
    module_names,
    unsaid,
)
from planner.export.run_shape import Arrangement, Run, RunShape

SCHEDULES = {
    Arrangement.ONE_CHUNK: "1F1B",
    Arrangement.LOOPED: "Interleaved1F1B",
    Arrangement.V_SHAPE: "ZBVZeroBubble",
}
"""Each decides where stages are, also where a CSV replaces its order."""
FLAVORS = {"8B": "Llama-3-8B", "70B": "Llama-3-70B", "405B": "Llama-3-405B"}
"""Of torchtitan's llama3, and the presets that have their sizes."""
NOT_OF_FLAVORS = ("name", "source", "sequence")
"""What of a model no flavor says."""
NEAR = ("layers", "hidden_size", "heads")
"""What a flavor that is worth naming shares with a model."""
SAID = {
    Feature.ORDER,
    Feature.SPLIT_BACKWARD,
    Feature.ARRANGEMENT,
    Feature.LAYERS,
    Feature.RECOMPUTATION,
}


def hindrance(shape: RunShape, run: Run) -> str | None:
    """Why torchtitan cannot run a plan."""
    training = run.training
    if shape.has_offloads:
        return NEEDS_OFFLOADS.format(framework="torchtitan")
    if training.precision == "fp16":
        return "torchtitan trains in bf16 or fp32, not in fp16: plan with training.precision: bf16."
    return None


def flavor(run: Run) -> str | None:
    """The flavor of torchtitan's llama3 that is the model in all that a plan knows of it."""
    known = ((name, read_model(preset)) for name, preset in FLAVORS.items())
    return next((name for name, own in known if not any(_differences(run.model, own))), None)


def own_flavor(run: Run) -> str:
    """What stands for a model that has to be registered first; never the name of a flavor."""
    return "REPLACE-" + (re.sub(r"[^A-Za-z0-9._]+", "-", run.model.name).strip("-") or "own")


def parallelism(shape: RunShape, run: Run, source: Source) -> dict[str, Any]:
    """The degrees of parallelism, and what each pipeline stage has and does."""
    degrees = run.training.degrees
    is_sharded = _is_sharded(run)
    settings: dict[str, Any] = {
        "data_parallel_replicate_degree": 1 if is_sharded else degrees.data,
        "data_parallel_shard_degree": degrees.data if is_sharded else 1,
        "fsdp_reshard_after_forward": "always" if run.training.zero_stage == 3 else "never",
        "tensor_parallel_degree": degrees.tensor,
        "context_parallel_degree": degrees.context,
        "expert_parallel_degree": degrees.expert,
        "pipeline_parallel_degree": degrees.pipeline,
    }
    if degrees.pipeline > 1:
        settings["pipeline_parallel_schedule"] = SCHEDULES[shape.arrangement]
        csv = csv_name(shape, source)
        if csv is not None:
            settings["pipeline_parallel_schedule_csv"] = csv
        settings["module_fqns_per_model_part"] = module_names(
            run, ("tok_embeddings",), "layers.", ("norm", "output")
        )
    return settings


def left_out(shape: RunShape, run: Run, source: Source, said: set[Feature]) -> list[str]:
    """What of a plan torchtitan cannot be told."""
    training, degrees = run.training, run.training.degrees
    said = said | SAID
    if training.optimizer == "adam":
        said.add(Feature.OPTIMIZER)
    if training.gradient_precision == "fp32":
        said.add(Feature.GRADIENT_PRECISION)
    if flavor(run) is not None:
        said.add(Feature.MODEL)
    if csv_name(shape, source) is None:
        said -= {Feature.ORDER, Feature.SPLIT_BACKWARD}
    sentences = unsaid(shape, run, said) + list(_near_flavors(run))
    if training.zero_stage == 1 and degrees.replicas > 1:
        sentences.append("ZeRO stage 1: FSDP2 shards gradients too, as stage 2 does.")
    if training.zero_stage == 0 and degrees.context > 1:
        sentences.append("Whole parameters on each rank: FSDP2 shards them over context ranks.")
    if training.zero_stage == 0 and degrees.expert > 1:
        sentences.append("Whole parameters on each rank: expert parallelism needs FSDP2.")
    if training.recomputation is Recomputation.SELECTIVE:
        sentences.append(
            "That only attention is recomputed: torchtitan's selective mode keeps results of "
            "matrix products and recomputes the rest."
        )
    return sentences


def _is_sharded(run: Run) -> bool:
    """Experts are split over ranks of FSDP2 only."""
    return run.training.zero_stage > 0 or run.training.degrees.expert > 1


def _near_flavors(run: Run) -> Iterator[str]:
    """What keeps a model from being the flavor that one could take it for."""
    for name, preset in FLAVORS.items():
        own = read_model(preset)
        differences = list(_differences(run.model, own))
        if differences and all(getattr(run.model, size) == getattr(own, size) for size in NEAR):
            yield f"The model is not torchtitan's llama3 {name}: {'; '.join(differences)}."


def _differences(model: Model, other: Model) -> Iterator[str]:
    for each in fields(Model):
        here, there = getattr(model, each.name), getattr(other, each.name)
        if each.name not in NOT_OF_FLAVORS and here != there:
            yield f"{each.name} is {here}, there {there}"
