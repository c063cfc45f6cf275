"""Operators that work on one element at a time, and sums and products that broadcast.

Attributes: `column_dimension`, which dimension column splits (see `ways.feature_dimension`); `p`
of dropout and `factor` of scale, without influence on costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from planner.sharding.graph import Graph, Operator, Tensor
from planner.sharding.operators.checks import path_of, require, require_shape
from planner.sharding.operators.rule import (
    NO_ROLE,
    Count,
    Extra,
    InputRule,
    Kind,
    OutputRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import Way, feature_dimension, usual_ways

Kept = Literal["input", "output", "other inputs", "mask", "nothing"]


@dataclass(frozen=True, slots=True)
class Function:
    """`keeps`: what PyTorch keeps for the backward. FLOPs per element, a transcendental function
    counting as one."""

    keeps: Kept
    flops: int
    backward_flops: int
    inputs: Count = (1, 1)
    attributes: tuple[str, ...] = ()


FUNCTIONS: Mapping[str, Function] = {
    "gelu": Function("input", 8, 13),
    "silu": Function("input", 4, 7),
    "relu": Function("output", 1, 1),
    "tanh": Function("output", 1, 3),
    "sigmoid": Function("output", 4, 3),
    "add": Function("nothing", 1, 0, (2, None)),
    "mul": Function("other inputs", 1, 2, (2, 2)),
    "dropout": Function("mask", 2, 2, attributes=("p",)),
    "scale": Function("nothing", 1, 1, attributes=("factor",)),
    "cast": Function("nothing", 0, 0),
}


def _make_rules(
    function: Function, operator: Operator, graph: Graph, options: RuleOptions
) -> tuple[Rule, ...]:
    """Every tensor is split alike, so that layouts pass through.

    An input that is broadcast along a dimension is whole on the devices that split this dimension
    of the output, and its gradient comes out as partial sums over them.
    """
    inputs = graph.inputs_of(operator)
    (output,) = graph.outputs_of(operator)
    _check_shapes(operator, inputs, output)
    kept = [_keeps_input(function, inputs, number) for number in range(len(inputs))]
    operations = max(1, len(inputs) - 1) * output.elements

    def rule(way: Way) -> Rule:
        return Rule(
            units=way.units,
            limited_by=way.limited_by,
            inputs=tuple(
                _input_rule(way.split, tensor, output, saved)
                for tensor, saved in zip(inputs, kept, strict=True)
            ),
            outputs=(OutputRule(way.split, saved=function.keeps == "output"),),
            extras=(
                (Extra(output.elements, "bool", way.roles),) if function.keeps == "mask" else ()
            ),
            flops=function.flops * operations,
            backward_flops=function.backward_flops * operations,
            divides_work=way.roles,
            suffix=way.suffix,
        )

    column = feature_dimension(operator, output.shape)
    return tuple(rule(way) for way in usual_ways(output.shape, column, options))


def _check_shapes(operator: Operator, inputs: Sequence[Tensor], output: Tensor) -> None:
    if len(inputs) == 1:
        require_shape(operator, "outputs", 0, output.shape, inputs[0].shape, "the input")
    for number, tensor in enumerate(inputs):
        missing = len(output.shape) - len(tensor.shape)
        require(
            missing >= 0
            and all(
                own in (1, whole)
                for own, whole in zip(tensor.shape, output.shape[missing:], strict=True)
            ),
            path_of(operator, "inputs", number),
            f"{list(tensor.shape)} cannot be broadcast to the output's {list(output.shape)}.",
            "Dimensions are compared from the last one; each has to be equal or 1.",
        )
    for number, whole in enumerate(output.shape):
        behind = len(output.shape) - number
        sizes = [t.shape[-behind] for t in inputs if len(t.shape) >= behind]
        require(
            whole in sizes,
            path_of(operator, "outputs", 0),
            f"no input has the {whole} of dimension {number}.",
            "The output's shape is that of the inputs broadcast together.",
        )


def _keeps_input(function: Function, inputs: Sequence[Tensor], number: int) -> bool:
    if function.keeps == "other inputs":
        return any(t.has_gradient for place, t in enumerate(inputs) if place != number)
    return function.keeps == "input"


def _input_rule(split: Split, tensor: Tensor, output: Tensor, saved: bool) -> InputRule:
    missing = len(output.shape) - len(tensor.shape)

    def own(dimension: int | None) -> int | None:
        if dimension is None or dimension < missing:
            return None
        at = dimension - missing
        return at if tensor.shape[at] == output.shape[dimension] else None

    own_split = Split(*map(own, split))
    broadcast = Roles(
        *(whole is not None and part is None for whole, part in zip(split, own_split, strict=True))
    )
    return InputRule(own_split, broadcast if tensor.has_gradient else NO_ROLE, saved)


KINDS = tuple(
    Kind(
        name,
        partial(_make_rules, function),
        frozenset({"column_dimension", *function.attributes}),
        inputs=function.inputs,
    )
    for name, function in FUNCTIONS.items()
)
