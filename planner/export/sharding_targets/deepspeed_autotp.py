"""A sharding plan as DeepSpeed's `tensor_parallel.partition_config`."""

from __future__ import annotations

import json
import re

from planner.export.format import Document, Format, Source
from planner.export.sharding_targets.modules import (
    ANY_LAYER,
    ShardedGraph,
    SplitOperator,
    hindrance,
    sharded,
    with_plan,
)
from planner.export.sharding_targets.transformers_tp_plan import is_column, is_row


def write(_: Document, source: Source) -> str:
    """The section; the layers that DeepSpeed cannot split as planned are in it as `skip`."""
    plan = sharded(source)
    specs = [
        {
            "patterns": [_pattern(path) for path in own.paths],
            "partition_type": _partition_type(plan, own),
        }
        for own in plan.modules
        if own.operator.kind == "linear"
    ]
    section = {
        "autotp_size": plan.devices,
        "partition_config": {"use_default_specs": False, "layer_specs": specs},
    }
    return json.dumps({"tensor_parallel": section}, indent=2) + "\n"


def _partition_type(plan: ShardedGraph, own: SplitOperator) -> str:
    """A column layer hands its part to a row layer; DeepSpeed has no others."""
    if is_column(plan, own) and all(is_row(plan, other) for other in plan.behind(own) or [own]):
        return "column"
    if is_row(plan, own) and all(is_column(plan, other) for other in plan.before(own) or [own]):
        return "row"
    return "skip"


def _pattern(path: str) -> str:
    """Of the weight's name, in whatever module the model lies."""
    parts = (r"\d+" if part == ANY_LAYER else re.escape(part) for part in path.split("."))
    return rf"(.*\.)?{'[.]'.join(parts)}\.weight$"


DEEPSPEED_AUTOTP = Format(
    name="deepspeed-autotp",
    title="Split of the layers for DeepSpeed's tensor parallelism (JSON)",
    media_type="application/json",
    extension="autotp.json",
    carries="Of each linear layer whether all devices share it by its columns or its rows; skip "
    "for one whose split DeepSpeed does not have, which every device then computes whole.",
    leaves_out="Splits of the batch and of one layer in two ways, sequence parallelism, embedding "
    "and normalisation.",
    written_for="DeepSpeed 0.19.8",
    part=with_plan,
    hindrance=hindrance,
    write=write,
)
