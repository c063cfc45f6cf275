"""Softmax over the last dimension.

Attributes: `column_dimension`, which dimension column splits (default: heads of attention scores,
the second dimension); `scale`, `mask` and `causal`, without influence on costs.
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import path_of, require, require_dimensions, require_shape
from planner.sharding.operators.rule import InputRule, Kind, OutputRule, Rule, RuleOptions
from planner.sharding.operators.ways import feature_dimension, usual_ways

FORWARD_FLOPS, BACKWARD_FLOPS = 5, 4
"""Per element: largest, difference, exponential, sum, quotient; two products, sum, difference."""


def make_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Every row of the last dimension stays whole; data splits the batch, column the heads.

    The backward needs the output only: dX = Y (dY - sum(dY Y)).
    """
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, x, 1)
    require_shape(operator, "outputs", 0, y.shape, x.shape, "the input")
    last = len(x.shape) - 1
    given = "column_dimension" in operator.attributes
    column = feature_dimension(operator, x.shape) if given else (1 if last > 1 else None)
    require(
        column != last,
        path_of(operator, "attributes", "column_dimension"),
        f"dimension {last} is the one that the softmax runs over.",
        "Name another one.",
    )
    # The batch of a single row is the row itself, which nothing may split.
    (way,) = usual_ways(x.shape if last else (), column, RuleOptions())
    return (
        Rule(
            units=way.units,
            limited_by=("batch", "copies", "heads"),
            inputs=(InputRule(way.split),),
            outputs=(OutputRule(way.split, saved=True),),
            flops=FORWARD_FLOPS * x.elements,
            backward_flops=BACKWARD_FLOPS * x.elements,
            divides_work=way.roles,
        ),
    )


KIND = Kind("softmax", make_rules, frozenset({"column_dimension", "scale", "mask", "causal"}))
