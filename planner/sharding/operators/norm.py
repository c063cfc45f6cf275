"""Layer normalisation and root-mean-square normalisation over the last dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.sharding.graph import DTYPE_BYTES, Graph, Operator
from planner.sharding.operators.checks import require_dimensions, require_shape
from planner.sharding.operators.rule import (
    Collective,
    Extra,
    InputRule,
    Kind,
    OutputRule,
    ParameterRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import Way, usual_ways


def _make_rules(
    statistics: int,
    flops: tuple[int, int],
    operator: Operator,
    graph: Graph,
    options: RuleOptions,
) -> tuple[Rule, ...]:
    """Data splits the batch, column the normalised dimension, row nothing or the sequence.

    `statistics` sums per row go over the column devices, forward (of x and x^2, or of x^2 alone)
    and backward (of g and g x̂, or of g x̂ alone, with g the output's gradient times the weight).
    The backward needs the input and as many statistics per row as PyTorch keeps in fp32.
    """
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, x, 2)
    require_shape(operator, "outputs", 0, y.shape, x.shape, "the input")
    for number, parameter in enumerate(operator.parameters):
        require_shape(
            operator, "parameters", number, parameter.shape, x.shape[-1:], "the last dimension"
        )
    rows = x.elements // x.shape[-1]
    dtype = "fp64" if x.dtype == "fp64" else "fp32"

    def rule(way: Way) -> Rule:
        rows_split = Roles(data=True, row=way.roles.row)
        size = statistics * rows * DTYPE_BYTES[dtype]
        return Rule(
            units=way.units,
            limited_by=way.limited_by,
            inputs=(InputRule(way.split, saved=True),),
            outputs=(OutputRule(way.split),),
            parameters=tuple(
                ParameterRule(Split(column=0), partial_gradient=rows_split)
                for _ in operator.parameters
            ),
            extras=(Extra(statistics * rows, dtype, rows_split),),
            collectives=(
                Collective("all_reduce", "forward", "column", size, rows_split),
                Collective("all_reduce", "backward", "column", size, rows_split),
            ),
            flops=flops[0] * x.elements,
            backward_flops=flops[1] * x.elements,
            divides_work=way.roles,
            suffix=way.suffix,
        )

    return tuple(rule(way) for way in usual_ways(x.shape, len(x.shape) - 1, options))


def _kind(name: str, statistics: int, flops: tuple[int, int], parameters: int) -> Kind:
    make: Callable[[Operator, Graph, RuleOptions], tuple[Rule, ...]]
    make = partial(_make_rules, statistics, flops)
    return Kind(name, make, parameters=(0, parameters))


# FLOPs per element, forward and backward: sums, differences and products with the weight.
KINDS = (_kind("layer_norm", 2, (7, 11), 2), _kind("rms_norm", 1, (4, 8), 1))
