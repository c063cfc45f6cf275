"""The graph's inputs, each made by an operator of kind `input`.

Attribute: `column_dimension`, which dimension column splits (see `ways.feature_dimension`).
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.rule import Kind, OutputRule, Rule, RuleOptions
from planner.sharding.operators.ways import feature_dimension, usual_ways


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Whoever reads the data can read any part: data splits the batch, column the features, row
    nothing or the sequence."""
    (y,) = graph.outputs_of(operator)
    return tuple(
        Rule(
            units=way.units,
            limited_by=way.limited_by,
            inputs=(),
            outputs=(OutputRule(way.split),),
            divides_work=way.roles,
            suffix=way.suffix,
        )
        for way in usual_ways(y.shape, feature_dimension(operator, y.shape), options)
    )


KIND = Kind("input", make_rules, frozenset({"column_dimension"}), inputs=(0, 0))
