"""Embedding: rows of a [vocabulary, hidden] table, looked up by token numbers.

A second parameter [positions, hidden] is added along the sequence (learned positions). Attribute,
without influence on costs: `module_class`, the class of the module that has the table, where that
is no torch.nn.Embedding.
"""

from __future__ import annotations

import math
from dataclasses import replace

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import (
    path_of,
    require,
    require_dimensions,
    require_numbers,
    require_shape,
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
    """Row splits the vocabulary, column the hidden dimension, data the batch.

    A device has zeros for tokens outside its part of the vocabulary, so row leaves partial sums
    of the output (Shoeybi et al. 2019, section 3). The backward needs the token numbers; it adds
    up one row per token.
    """
    (tokens,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, tokens, 1)
    require_numbers(operator, 0, tokens)
    for number, parameter in enumerate(operator.parameters):
        require(
            len(parameter.shape) == 2,
            path_of(operator, "parameters", number),
            f"has the shape {list(parameter.shape)}.",
            "Give a table as [rows, hidden].",
        )
    vocabulary, hidden = operator.parameters[0].shape
    require_shape(
        operator, "outputs", 0, y.shape, (*tokens.shape, hidden), "the tokens and the table"
    )
    for number, positions in enumerate(operator.parameters[1:], start=1):
        require(
            positions.shape[1] == hidden and positions.shape[0] >= tokens.shape[-1],
            path_of(operator, "parameters", number),
            f"positions {list(positions.shape)} do not fit {list(y.shape)}.",
            f"At least [{tokens.shape[-1]}, {hidden}] would.",
        )
    last = len(y.shape) - 1
    rule = Rule(
        units=(tokens.shape[0], vocabulary, hidden),
        limited_by=("batch", "vocabulary", "hidden size"),
        inputs=(InputRule(Split(data=0), saved=True),),
        outputs=(OutputRule(Split(data=0, column=last), partial=Roles(row=True)),),
        parameters=(
            ParameterRule(Split(row=0, column=1)),
            *(ParameterRule(Split(column=1)) for _ in operator.parameters[1:]),
        ),
        flops=(len(operator.parameters) - 1) * y.elements,
        backward_flops=len(operator.parameters) * y.elements,
    )
    if not (options.sequence_parallel and has_sequence(y.shape)):
        return (rule,)
    return rule, _sequence_parallel(rule, y.shape[SEQUENCE], y.size_bytes)


def _sequence_parallel(rule: Rule, sequence: int, y_bytes: int) -> Rule:
    """The output is scattered along the sequence over row instead of summed everywhere."""
    batch, vocabulary, hidden = rule.units
    assert vocabulary is not None
    split = Roles(data=True, column=True)
    return replace(
        rule,
        units=(batch, math.gcd(vocabulary, sequence), hidden),
        limited_by=("batch", "common pieces of vocabulary and sequence", "hidden size"),
        outputs=(OutputRule(rule.outputs[0].split._replace(row=SEQUENCE)),),
        parameters=(
            rule.parameters[0],
            *(
                replace(positions, partial_gradient=Roles(data=True, row=True))
                for positions in rule.parameters[1:]
            ),
        ),
        collectives=(
            Collective("reduce_scatter", "forward", "row", y_bytes, split),
            Collective("all_gather", "backward", "row", y_bytes, split),
        ),
        suffix=SEQUENCE_PARALLEL,
    )


KIND = Kind("embedding", make_rules, frozenset({"module_class"}), parameters=(1, 2))
