"""The router of a mixture of experts: scores for all experts, softmax, the k best of them.

Attributes: `experts_per_token` (needed with one output; see `routing`), and `experts`, which has to
agree with the weight.
"""

from __future__ import annotations

from planner.sharding.graph import DTYPE_BYTES, Graph, Operator
from planner.sharding.operators.checks import (
    path_of,
    require,
    require_dimensions,
    require_shape,
)
from planner.sharding.operators.routing import experts_per_token, require_experts
from planner.sharding.operators.rule import (
    WHOLE,
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
from planner.sharding.operators.ways import SEQUENCE, SEQUENCE_PARALLEL, has_sequence


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Data splits the batch, row the hidden dimension, and column nothing.

    The scores of all experts are needed for the softmax, so row adds them up before it; they are
    small. Column would have to gather the scores and to add up gradients of the far larger input;
    so every device scores all experts, as in Megatron-LM. With sequence parallelism row splits the
    sequence in a second rule. Kept are input, softmax and the numbers of the chosen.
    """
    (x,), outputs = graph.inputs_of(operator), graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, x, 2)
    weight = operator.parameters[0]
    require(
        len(weight.shape) == 2 and weight.shape[0] == x.shape[-1],
        path_of(operator, "parameters", 0),
        f"the weight {list(weight.shape)} does not score tokens {list(x.shape)}.",
        f"Give it as [{x.shape[-1]}, experts].",
    )
    experts = weight.shape[1]
    require_experts(operator, experts)
    for number, bias in enumerate(operator.parameters[1:], start=1):
        require_shape(operator, "parameters", number, bias.shape, (experts,), "the experts")
    chosen = experts_per_token(operator, "outputs", 0, outputs, x.shape[:-1], experts)
    tokens = x.elements // x.shape[-1]
    product = 2 * tokens * weight.elements

    def rule(source: Split, target: Split, row_units: int, what: str, suffix: str) -> Rule:
        scattered = suffix == SEQUENCE_PARALLEL
        rows = Roles(data=True, row=scattered)
        scores = Collective(
            "all_reduce", "forward", "row", tokens * experts * DTYPE_BYTES[x.dtype], rows
        )
        weights, *numbers = outputs
        return Rule(
            units=(x.shape[0], row_units, None),
            limited_by=("batch", what, "copies"),
            inputs=(InputRule(source, saved=True),),
            outputs=(OutputRule(target), *(OutputRule(target, saved=True) for _ in numbers)),
            parameters=(
                ParameterRule(WHOLE if scattered else Split(row=0), partial_gradient=rows),
                *(ParameterRule(WHOLE, partial_gradient=rows) for _ in operator.parameters[1:]),
            ),
            extras=(
                Extra(tokens * experts, weights.dtype, rows),
                *(() if numbers else (Extra(tokens * chosen, "int64", rows),)),
            ),
            collectives=() if scattered else (scores,),
            flops=product,
            backward_flops=2 * product,
            divides_work=Roles(data=True, row=True),
            suffix=suffix,
        )

    last, batch = len(x.shape) - 1, Split(data=0)
    rules = [rule(Split(data=0, row=last), batch, x.shape[-1], "hidden size", "")]
    if options.sequence_parallel and has_sequence(x.shape):
        split = Split(data=0, row=SEQUENCE)
        rules.append(rule(split, split, x.shape[SEQUENCE], "sequence", SEQUENCE_PARALLEL))
    return tuple(rules)


KIND = Kind(
    "router",
    make_rules,
    frozenset({"experts", "experts_per_token"}),
    outputs=(1, 2),
    parameters=(1, 2),
)
