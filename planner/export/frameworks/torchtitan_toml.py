"""A plan as the TOML of torchtitan 0.2.2, the last version that reads it."""

from __future__ import annotations

import json
from typing import Any

from planner.export.format import Document, Format, Source
from planner.export.frameworks import torchtitan
from planner.export.frameworks.common import Feature, described, header, hindrance_of, plan_of
from planner.export.run_shape import Run, RunShape


def write(_: Document, source: Source) -> str:
    """The file; what it says nothing of (data, learning rate) is torchtitan's default."""
    shape, run = described(source)
    # Sequence parallelism comes with tensor parallelism here.
    said = {Feature.SEQUENCE_PARALLEL} if run.training.sequence_parallel else set()
    left = torchtitan.left_out(shape, run, source, said)
    known = torchtitan.flavor(run)
    if known is None:
        left.append("torchtitan has no such model: register it, and put its names into [model].")
    sections = {
        "model": {"name": "llama3", "flavor": known or torchtitan.own_flavor(run)},
        "training": _training(shape, run),
        "parallelism": torchtitan.parallelism(shape, run, source)
        | {
            "expert_tensor_parallel_degree": run.training.degrees.tensor
            if run.training.degrees.expert > 1
            else 1,
            "pipeline_parallel_microbatch_size": run.training.micro_batch_size,
        },
        "activation_checkpoint": {
            "mode": run.training.recomputation.value,
            "selective_ac_option": "op",
        },
    }
    if run.training.optimizer == "adam":
        sections["optimizer"] = {"name": "AdamW"}
    tables = (
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items())
        for name, section in sections.items()
    )
    return header(TORCHTITAN_TOML, shape, run, source, left) + "\n" + "\n".join(tables)


def _training(shape: RunShape, run: Run) -> dict[str, Any]:
    training = run.training
    # Without a pipeline the micro-batches are steps of gradient accumulation.
    passes = shape.micro_batches if shape.pipeline_parallel > 1 else 1
    return {
        "local_batch_size": training.micro_batch_size * passes,
        "global_batch_size": training.global_batch_size,
        "seq_len": training.sequence,
        "dtype": "float32",
        "mixed_precision_param": "float32" if training.precision == "fp32" else "bfloat16",
        "mixed_precision_reduce": "float32",
    }


TORCHTITAN_TOML = Format(
    name="torchtitan-toml",
    title="Configuration of torchtitan 0.2 (TOML)",
    media_type="application/toml",
    extension="torchtitan.toml",
    carries="Degrees, batch, modules of each stage, recomputation, precision, sharding of states; "
    "the schedule by its torch-csv.",
    leaves_out="Data, tokenizer and learning rate. What of the plan it cannot say is listed in it; "
    "plans that offload activations are refused.",
    written_for="torchtitan 0.2.2",
    part=plan_of,
    hindrance=hindrance_of(torchtitan.hindrance),
    write=write,
)
