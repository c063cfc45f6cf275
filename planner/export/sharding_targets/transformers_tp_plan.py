"""A sharding plan as `tp_plan` of transformers: which modules tensor ranks split, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping

from planner.export.format import Document, Format, Source
from planner.export.sharding_targets.columns import Parts
from planner.export.sharding_targets.modules import (
    ShardedGraph,
    SplitOperator,
    hindrance,
    sharded,
    with_plan,
)
from planner.export.sharding_targets.tensor_parallel import LinearSplit, linear_splits

GATHERED = "its output is gathered and every rank takes its part of it again."


def write(_: Document, source: Source) -> str:
    """`tp_plan` is for `from_pretrained(..., tp_plan=...)`."""
    plan = sharded(source)
    splits = linear_splits(plan, _allows)
    document = {
        "plan": source.job_id,
        "written_for": TRANSFORMERS_TP_PLAN.written_for,
        "tensor_parallel_size": plan.devices,
        "tp_plan": {
            path: _style(splits[own.name])
            for own in plan.modules
            for path in own.paths
            if own.name in splits
        },
        "not_expressed": [
            f"{own.in_words}: every rank computes all of it."
            for own in plan.operators
            if own.operator.parameters and own.name not in splits
        ]
        + [f"{own.in_words}: {GATHERED}" for own in _gathered(plan, splits)],
    }
    return json.dumps(document, indent=2) + "\n"


def _allows(own: SplitOperator, parts: Parts) -> bool:
    """transformers has one style for parts, two equal ones without a bias."""
    halves = len(parts) == 2 and parts[0] == parts[1]
    return len(parts) == 1 or (halves and len(own.operator.parameters) == 1)


def _style(split: LinearSplit) -> str:
    if split.by_rows:
        return "rowwise" if split.apart else "rowwise_split_input"
    if not split.apart:
        return "colwise_gather_output"
    return "colwise" if len(split.parts) == 1 else "packed_colwise"


def _gathered(plan: ShardedGraph, splits: Mapping[str, LinearSplit]) -> list[SplitOperator]:
    """Layers whose columns the plan has apart though transformers cannot keep them so."""
    read = {tensor for operator in plan.graph.operators for tensor in operator.inputs}
    return [
        own
        for own in plan.modules
        if own.name in splits
        and not splits[own.name].by_rows
        and not splits[own.name].apart
        and any(tensor in read for tensor in own.operator.outputs)
    ]


TRANSFORMERS_TP_PLAN = Format(
    name="transformers-tp-plan",
    title="Tensor-parallel plan for transformers (JSON)",
    media_type="application/json",
    extension="tp-plan.json",
    carries="Of each linear layer that all devices share whether by its columns or its rows, and "
    "whether its output stays split or is gathered.",
    leaves_out="Splits of the batch and of one layer in two ways, sequence parallelism, embedding "
    "and normalisation; what of that the plan has, is listed in it.",
    written_for="transformers 5.24",
    part=with_plan,
    hindrance=hindrance,
    write=write,
)
