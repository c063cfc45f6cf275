"""Gated linear unit: activation(gate) * up, from one tensor [..., 2 f] or two [..., f].

In one tensor a device's part is whole pairs of a feature's gate and up (as Megatron-LM stores them
per device). Attributes, without influence on costs: `activation`; `packing`, how the program has
the one tensor: "blocks" if all gates come before all ups, "groups" if the two of a feature are
neighbours (what splits a module's weight needs to know it); `fixed_sizes`, as of reshape.
"""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    flag_attribute,
    require_dimensions,
    require_packing,
    require_shape,
)
from planner.sharding.operators.rule import InputRule, Kind, OutputRule, Rule, RuleOptions
from planner.sharding.operators.ways import usual_ways

FORWARD_FLOPS, BACKWARD_FLOPS = 5, 9
"""Per output element: SiLU and a product; its derivative, SiLU again and two products."""


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Column splits the features by pairs, data the batch, row nothing or the sequence.

    Kept are gate and up (the fused operator computes the activation again).
    """
    inputs, (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    require_packing(operator)
    flag_attribute(operator, "fixed_sizes", False)
    require_dimensions(operator, "outputs", 0, y, 2)
    width = y.shape[-1] * 2 // len(inputs)
    for number, tensor in enumerate(inputs):
        wanted = (*y.shape[:-1], width)
        require_shape(operator, "inputs", number, tensor.shape, wanted, f"output {list(y.shape)}")
    return tuple(
        Rule(
            units=way.units,
            limited_by=way.limited_by,
            inputs=(InputRule(way.split, saved=True),) * len(inputs),
            outputs=(OutputRule(way.split),),
            flops=FORWARD_FLOPS * y.elements,
            backward_flops=BACKWARD_FLOPS * y.elements,
            divides_work=way.roles,
            suffix=way.suffix,
        )
        for way in usual_ways(y.shape, len(y.shape) - 1, options)
    )


KIND = Kind("glu", make_rules, frozenset({"activation", "packing", "fixed_sizes"}), inputs=(1, 2))
