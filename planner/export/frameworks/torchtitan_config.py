"""A plan as a module for torchtitan's configurations in Python, which replaced TOML after 0.2."""

from __future__ import annotations

import json
from typing import Any

from planner.cost.training import Recomputation
from planner.export.format import Document, Format, Source
from planner.export.frameworks import torchtitan
from planner.export.frameworks.common import Feature, described, header, hindrance_of, plan_of
from planner.export.run_shape import Run

CHECKPOINTING = {Recomputation.SELECTIVE: "SelectiveAC", Recomputation.FULL: "FullAC"}


def write(_: Document, source: Source) -> str:
    """The module: a function that puts the plan into the configuration of a model."""
    shape, run = described(source)
    left = torchtitan.left_out(shape, run, source, {Feature.SEQUENCE_PARALLEL})
    # Which model it is says the configuration that the plan is put into.
    known = torchtitan.flavor(run)
    if known is not None:
        left.append(f"The model: put it into the configuration of llama3 {known}.")
    if run.training.optimizer == "adam":
        left.append("The optimizer: adam. It is the configuration's own.")
    parallelism = torchtitan.parallelism(shape, run, source) | {
        "enable_sequence_parallel": run.training.sequence_parallel
    }
    if shape.pipeline_parallel > 1:
        parallelism["num_pp_microbatches"] = shape.micro_batches
    return (
        header(TORCHTITAN_CONFIG, shape, run, source, left)
        + _imports(run)
        + "def planned(config: Trainer.Config) -> Trainer.Config:\n"
        + '    """The configuration of a model, such as `llama3_8b()`, with the plan in it."""\n'
        + _replaced("training", _training(run))
        + _replaced("parallelism", parallelism)
        + f"    config.activation_checkpoint = {_checkpointing(run)}\n"
        + "    return config\n"
    )


def _imports(run: Run) -> str:
    name = CHECKPOINTING.get(run.training.recomputation)
    torchtitans = [
        *([f"from torchtitan.distributed.activation_checkpoint import {name}"] if name else []),
        "from torchtitan.trainer import Trainer",
    ]
    return "\nfrom dataclasses import replace\n\n" + "\n".join(torchtitans) + "\n\n\n"


def _checkpointing(run: Run) -> str:
    name = CHECKPOINTING.get(run.training.recomputation)
    return f"{name}.Config()" if name else "None"


def _training(run: Run) -> dict[str, Any]:
    training = run.training
    return {
        "num_tokens_per_microbatch_per_dp_rank": training.micro_batch_size * training.sequence,
        "num_tokens_per_train_step": training.global_batch_size * training.sequence,
        "max_context_length": training.sequence,
        "dtype": "float32",
        "mixed_precision_param": "float32" if training.precision == "fp32" else "bfloat16",
        "mixed_precision_reduce": "float32",
    }


def _literal(value: Any) -> str:
    """In double quotes, and a list of lists with a line for each."""
    if isinstance(value, list):
        lines = "".join(f"            {json.dumps(part)},\n" for part in value)
        return f"[\n{lines}        ]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _replaced(section: str, settings: dict[str, Any]) -> str:
    fields = "".join(f"        {name}={_literal(value)},\n" for name, value in settings.items())
    return f"    config.{section} = replace(\n        config.{section},\n{fields}    )\n"


TORCHTITAN_CONFIG = Format(
    name="torchtitan-config",
    title="Configuration of current torchtitan (Python)",
    media_type="text/x-python; charset=utf-8",
    extension="torchtitan.py",
    carries="Degrees, batch, modules of each stage, recomputation, precision, sharding of states; "
    "the schedule by its torch-csv.",
    leaves_out="Model, data and learning rate: it changes a configuration that has them. What of "
    "the plan it cannot say is listed in it; plans that offload activations are refused.",
    written_for="torchtitan at b5bcd76c6 (August 2026)",
    part=plan_of,
    hindrance=hindrance_of(torchtitan.hindrance),
    write=write,
)
