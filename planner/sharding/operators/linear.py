"""Linear layers, Y = X W + bias over the last dimension of X, the rule that the others follow.

Attributes: `column_units` and `row_units`, the indivisible pieces of the output's and the input's
last dimension (heads, groups of heads that share a key); default: single features. `module_class`,
without influence on costs: the class of the module that has the weight, where that is no
torch.nn.Linear.
"""

from __future__ import annotations

import math
from dataclasses import replace

from planner.errors import SpecError
from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    path_of,
    require_dimensions,
    require_shape,
    units_attribute,
)
from planner.sharding.operators.rule import (
    Collective,
    InputRule,
    Kind,
    OutputRule,
    ParameterRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import SEQUENCE, SEQUENCE_PARALLEL, has_sequence


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Data splits the batch, row the contracted and column the output dimension.

    Row leaves partial sums of Y, column partial sums of X's gradient, and data partial sums of
    W's (Shoeybi et al. 2019, section 3).
    """
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    weight = operator.parameters[0]
    require_dimensions(operator, "inputs", 0, x, 2)
    if (
        len(weight.shape) != 2
        or y.shape != (*x.shape[:-1], weight.shape[1])
        or (x.shape[-1] != weight.shape[0])
    ):
        raise SpecError(
            path_of(operator, "parameters", 0),
            f"the weight {list(weight.shape)} does not lead from {list(x.shape)} to "
            f"{list(y.shape)}.",
            "Give it as [input features, output features].",
        )
    for number, bias in enumerate(operator.parameters[1:], start=1):
        require_shape(operator, "parameters", number, bias.shape, y.shape[-1:], "the output")
    last = len(x.shape) - 1
    product = 2 * math.prod(x.shape[:-1]) * weight.elements
    rule = Rule(
        units=(
            x.shape[0],
            units_attribute(operator, "row_units", x.shape[-1]),
            units_attribute(operator, "column_units", y.shape[-1]),
        ),
        limited_by=("batch", "row units", "column units"),
        inputs=(
            InputRule(Split(data=0, row=last), partial_gradient=Roles(column=True), saved=True),
        ),
        outputs=(OutputRule(Split(data=0, column=last), partial=Roles(row=True)),),
        parameters=(
            ParameterRule(Split(row=0, column=1)),
            *(ParameterRule(Split(column=0)) for _ in operator.parameters[1:]),
        ),
        counts_input_copies=True,
        flops=product,
        backward_flops=2 * product,
    )
    if options.sequence_parallel and has_sequence(x.shape):
        return rule, _sequence_parallel(rule, x.shape[SEQUENCE], x.size_bytes, y.size_bytes)
    return (rule,)


def _sequence_parallel(rule: Rule, sequence: int, x_bytes: int, y_bytes: int) -> Rule:
    """X arrives and Y leaves split along the sequence by the devices that would hold copies.

    All-reduces become pairs of all-gather and reduce-scatter, and X, of which a device keeps its
    part only, is gathered again in the backward (Korthikanti et al. 2022, section 4.2.2). The bias
    is added to a part of the sequence, so its gradient has to be added up over row as well.
    """
    last = rule.inputs[0].split.row
    batch, row_units, column_units = rule.units
    assert row_units is not None
    assert column_units is not None
    of_x, of_y = Roles(data=True, row=True), Roles(data=True, column=True)
    return replace(
        rule,
        units=(batch, math.gcd(row_units, sequence), math.gcd(column_units, sequence)),
        limited_by=(
            "batch",
            "common pieces of row units and sequence",
            "common pieces of column units and sequence",
        ),
        inputs=(InputRule(Split(data=0, row=last, column=SEQUENCE), saved=True),),
        outputs=(OutputRule(Split(data=0, row=SEQUENCE, column=last)),),
        parameters=(
            rule.parameters[0],
            *(
                replace(bias, partial_gradient=Roles(data=True, row=True))
                for bias in rule.parameters[1:]
            ),
        ),
        collectives=(
            Collective("all_gather", "forward", "column", x_bytes, of_x),
            Collective("reduce_scatter", "forward", "row", y_bytes, of_y),
            Collective("all_gather", "backward", "row", y_bytes, of_y),
            Collective("all_gather", "backward", "column", x_bytes, of_x),
            Collective("reduce_scatter", "backward", "column", x_bytes, of_x),
        ),
        suffix=SEQUENCE_PARALLEL,
    )


KIND = Kind(
    "linear",
    make_rules,
    frozenset({"column_units", "row_units", "module_class"}),
    parameters=(1, 2),
)
