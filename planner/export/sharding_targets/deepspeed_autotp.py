"""A sharding plan as DeepSpeed's `tensor_parallel.partition_config`."""

from __future__ import annotations

import json
import re
from typing import Any

from planner.export.format import Document, Format, Source
from planner.export.sharding_targets.columns import Parts
from planner.export.sharding_targets.modules import (
    ANY_LAYER,
    SplitOperator,
    hindrance,
    sharded,
    with_plan,
)
from planner.export.sharding_targets.tensor_parallel import LinearSplit, linear_splits


def write(_: Document, source: Source) -> str:
    """The section; the layers that DeepSpeed cannot split as planned are in it as `skip`."""
    plan = sharded(source)
    splits = linear_splits(plan, _allows)
    specs = [
        {"patterns": [_pattern(path) for path in own.paths], **_partition(splits.get(own.name))}
        for own in plan.modules
        if own.operator.kind == "linear"
    ]
    section = {
        "autotp_size": plan.devices,
        "partition_config": {"use_default_specs": False, "layer_specs": specs},
    }
    return json.dumps({"tensor_parallel": section}, indent=2) + "\n"


def _allows(_own: SplitOperator, _parts: Parts) -> bool:
    """DeepSpeed splits parts of any widths, each by itself."""
    return True


def _partition(split: LinearSplit | None) -> dict[str, Any]:
    """A column layer hands its part to a row layer; DeepSpeed has no others."""
    if split is None or not split.apart:
        return {"partition_type": "skip"}
    if split.by_rows:
        return {"partition_type": "row"}
    if len(split.parts) == 1:
        return {"partition_type": "column"}
    return {"partition_type": "column", "shape": [[*split.parts], -1], "partition_dim": 0}


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
