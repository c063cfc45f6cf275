"""What the rules say is kept for the backward, summed over a transformer layer, against the
formulas of Korthikanti et al. 2022 for one device, tensor and sequence parallelism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from planner.cost.memory import ActivationShape, layer_activation_bytes
from planner.sharding.graph import DTYPE_BYTES, Graph, Operator
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Degrees, Rule, RuleOptions
from planner.sharding.training import read_sharding_training
from planner.sharding.transformer.request import read_transformer

GPT = {"hidden_size": 64, "heads": 8, "sequence": 32, "biases": True}
GATED = GPT | {"gated": True, "ffn_hidden_size": 96, "kv_heads": 4, "biases": False}
EXPERTS = GATED | {"experts": 4, "experts_per_token": 2}

COLUMN = {"qkv", "split_heads", "scores", "softmax", "attention_dropout", "context", "attention"}
COLUMN |= {"merge_heads", "fc1", "gelu", "glu", "experts"}


def chosen(operator: Operator, graph: Graph, tensor: int, sequence: bool) -> tuple[Rule, Degrees]:
    """Megatron-LM's split of an operator, as a rule and its degrees."""
    *_, rule = rules_of(operator, graph, RuleOptions(sequence_parallel=sequence))
    is_column = operator.name in COLUMN
    degrees = Degrees(1, 1, tensor) if is_column else Degrees(1, tensor, 1)
    for units, degree in zip(rule.units, degrees, strict=True):
        assert units is None or units % degree == 0
    return rule, degrees


def blocks(split: tuple[Any, ...], degrees: Degrees) -> int:
    """Into how many parts something is split; roles that split it have a dimension or True."""
    return math.prod(
        degree
        for degree, own in zip(degrees, split, strict=True)
        if own is not None and own is not False
    )


def kept_bytes(graph: Graph, tensor: int, sequence: bool) -> Iterator[int]:
    """Bytes on a device of each tensor that someone keeps, and of masks and the like; not of
    statistics per token, which the formulas leave out."""
    rules = {op.name: chosen(op, graph, tensor, sequence) for op in graph.operators}
    saved = set()
    for operator in reversed(graph.operators):
        rule, _ = rules[operator.name]
        for name, output in zip(operator.outputs, rule.outputs, strict=True):
            if output.saved:
                saved.add(name)
            if output.is_view and name in saved:
                saved.remove(name)
                saved.add(operator.inputs[0])
        saved |= {name for name, own in zip(operator.inputs, rule.inputs, strict=True) if own.saved}
    for operator in graph.operators:
        rule, degrees = rules[operator.name]
        for name, output in zip(operator.outputs, rule.outputs, strict=True):
            if name in saved and operator.kind != "router":
                yield graph.tensors[name].size_bytes // blocks(output.split, degrees)
        if operator.kind in ("dropout", "experts"):
            for extra in rule.extras:
                whole = extra.elements * DTYPE_BYTES[extra.dtype]
                yield whole // blocks(extra.splits, degrees)


# With sequence parallelism the formula has the experts' tokens split, not the features inside.
@pytest.mark.parametrize(
    ("fields", "sequence"),
    [(GPT, False), (GPT, True), (GATED, False), (GATED, True), (EXPERTS, False)],
)
@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("flash", [False, True])
def test_a_layer_keeps_what_the_formula_says(
    fields: dict[str, Any], sequence: bool, tensor: int, flash: bool
) -> None:
    dropout = not fields.get("gated", False)
    training = read_sharding_training({"flash_attention": flash, "dropout": dropout})
    read = read_transformer(fields | {"batch": 4}, training, tensor)
    shape = ActivationShape(read.sequence, 4, tensor, sequence, 2, flash)
    expected = layer_activation_bytes(read.model, shape)
    assert sum(kept_bytes(read.graph, tensor, sequence)) == expected
