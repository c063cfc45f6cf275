"""A sharding plan as `tp_plan` of transformers: which modules tensor ranks split, and how."""

from __future__ import annotations

import json

from planner.export.format import Document, Format, Source
from planner.export.sharding_targets.modules import (
    ShardedGraph,
    SplitOperator,
    hindrance,
    sharded,
    with_plan,
)


def write(_: Document, source: Source) -> str:
    """`tp_plan` is for `from_pretrained(..., tp_plan=...)`."""
    plan = sharded(source)
    styles = {own.name: style for own in plan.modules if (style := _style(plan, own)) is not None}
    document = {
        "plan": source.job_id,
        "written_for": TRANSFORMERS_TP_PLAN.written_for,
        "tensor_parallel_size": plan.devices,
        "tp_plan": {
            path: styles[own.name]
            for own in plan.modules
            for path in own.paths
            if own.name in styles
        },
        "not_expressed": [
            f"{own.in_words}: every rank computes all of it."
            for own in plan.operators
            if own.operator.parameters and own.name not in styles
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def is_column(plan: ShardedGraph, own: SplitOperator) -> bool:
    """Whether all devices share a linear layer's outputs."""
    return own.operator.kind == "linear" and own.strategy.degrees.column == plan.devices > 1


def is_row(plan: ShardedGraph, own: SplitOperator) -> bool:
    """Whether all devices share a linear layer's inputs."""
    return own.operator.kind == "linear" and own.strategy.degrees.row == plan.devices > 1


def _style(plan: ShardedGraph, own: SplitOperator) -> str | None:
    """None where tensor ranks cannot split it so: they all have the whole batch."""
    if is_column(plan, own):
        behind = plan.behind(own)
        stays = bool(behind) and all(is_row(plan, other) for other in behind)
        return "colwise" if stays else "colwise_gather_output"
    if is_row(plan, own):
        before = plan.before(own)
        comes = bool(before) and all(is_column(plan, other) for other in before)
        return "rowwise" if comes else "rowwise_split_input"
    return None


TRANSFORMERS_TP_PLAN = Format(
    name="transformers-tp-plan",
    title="Tensor-parallel plan for transformers (JSON)",
    media_type="application/json",
    extension="tp-plan.json",
    carries="Of each linear layer that all devices share whether by its columns or its rows.",
    leaves_out="Splits of the batch and of one layer in two ways, sequence parallelism, embedding "
    "and normalisation; what of that the plan has, is listed in it.",
    written_for="transformers 5.24",
    part=with_plan,
    hindrance=hindrance,
    write=write,
)
