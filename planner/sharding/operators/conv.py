"""Convolutions of [batch, channels, ...] with a weight [out, in / groups, ...kernel] and a bias.

Attribute: `groups` (default 1); equal parts of the channels that do not mix. Strides and padding
show in the shapes.
"""

from __future__ import annotations

import math
from functools import partial

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    path_of,
    require,
    require_dimensions,
    require_shape,
    whole_attribute,
)
from planner.sharding.operators.rule import (
    InputRule,
    Kind,
    OutputRule,
    ParameterRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)

CHANNELS = 1


def _make_rules(
    dimensions: int | None, operator: Operator, graph: Graph, _options: RuleOptions
) -> tuple[Rule, ...]:
    """A linear layer over channels at every position: row splits the input's, column the output's.

    With groups column splits the groups, of which each device needs its own input channels only,
    and row nothing.
    """
    groups = _checked_groups(operator, graph, dimensions)
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    weight = operator.parameters[0]
    positions = y.elements // y.shape[CHANNELS]
    product = 2 * positions * weight.elements
    grouped = groups > 1
    return (
        Rule(
            units=(
                x.shape[0],
                None if grouped else x.shape[CHANNELS],
                groups if grouped else y.shape[CHANNELS],
            ),
            limited_by=("batch", "input channels", "groups" if grouped else "output channels"),
            inputs=(
                InputRule(
                    Split(data=0, column=CHANNELS) if grouped else Split(data=0, row=CHANNELS),
                    partial_gradient=Roles(column=not grouped),
                    saved=True,
                ),
            ),
            outputs=(OutputRule(Split(data=0, column=CHANNELS), partial=Roles(row=not grouped)),),
            parameters=(
                ParameterRule(Split(row=None if grouped else 1, column=0)),
                *(ParameterRule(Split(column=0)) for _ in operator.parameters[1:]),
            ),
            counts_input_copies=True,
            flops=product,
            backward_flops=2 * product,
            divides_work=Roles(data=True, row=not grouped, column=True),
        ),
    )


def _checked_groups(operator: Operator, graph: Graph, dimensions: int | None) -> int:
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    weight = operator.parameters[0]
    require_dimensions(operator, "inputs", 0, x, 3)
    for field, tensor in (("inputs", x), ("outputs", y)):
        wanted = len(x.shape) if dimensions is None else dimensions
        require(
            len(tensor.shape) == wanted,
            path_of(operator, field, 0),
            f"{tensor.name!r} has the shape {list(tensor.shape)}.",
            f"Give it {wanted} dimensions, batch and channels first.",
        )
    groups = whole_attribute(operator, "groups", 1)
    require(
        x.shape[CHANNELS] % groups == 0 and y.shape[CHANNELS] % groups == 0,
        path_of(operator, "attributes", "groups"),
        f"{groups} do not divide the channels of {list(x.shape)} and {list(y.shape)}.",
        f"Give a divisor of {math.gcd(x.shape[CHANNELS], y.shape[CHANNELS])}.",
    )
    require_shape(operator, "outputs", 0, y.shape[:1], x.shape[:1], "the input's batch")
    wanted_weight = (y.shape[CHANNELS], x.shape[CHANNELS] // groups, *weight.shape[2:])
    require(
        weight.shape == wanted_weight and len(weight.shape) == len(x.shape),
        path_of(operator, "parameters", 0),
        f"the weight {list(weight.shape)} does not lead from {list(x.shape)} to {list(y.shape)}.",
        "Give it as [output channels, input channels / groups, kernel sizes].",
    )
    for number, bias in enumerate(operator.parameters[1:], start=1):
        require_shape(
            operator, "parameters", number, bias.shape, (y.shape[CHANNELS],), "the output channels"
        )
    return groups


KINDS = tuple(
    Kind(name, partial(_make_rules, dimensions), frozenset({"groups"}), parameters=(1, 2))
    for name, dimensions in (("conv", None), ("conv1d", 3), ("conv2d", 4))
)
