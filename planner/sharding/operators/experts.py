"""The feed-forward layers of all experts of a mixture of experts as one operator.

Inputs are the tokens [..., h] and the router's choice (see `routing`), parameters [E, h, f] (twice,
or once [E, h, 2 f] with gate and up of each feature side by side, where `gated`) and [E, f, h],
each with or without a bias [E, out] behind it. Every expert is taken to get equally many tokens,
and none is dropped. Attributes: `experts_per_token` (needed where the choice is one tensor),
`experts` and `gated`, which have to agree with the parameters, and `activation`, without influence
on costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.sharding.graph import DTYPE_BYTES, Graph, Operator, Tensor
from planner.sharding.operators.checks import (
    flag_attribute,
    path_of,
    require,
    require_dimensions,
    require_shape,
)
from planner.sharding.operators.routing import experts_per_token, require_experts
from planner.sharding.operators.rule import (
    ALL_ROLES,
    Collective,
    Extra,
    InputRule,
    JointUnits,
    Kind,
    OutputRule,
    ParameterRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import SEQUENCE, SEQUENCE_PARALLEL, has_sequence


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the parameters are: those before place `down` lead from the tokens to the `features`
    inside an expert, that at `down` leads back, and a bias may come after it."""

    experts: int
    features: int
    gated: bool
    down: int


def make_rules(operator: Operator, graph: Graph, options: RuleOptions) -> tuple[Rule, ...]:
    """Row splits the experts (expert parallelism), column the features inside each of them.

    Data and row together split the batch, as expert-parallel devices have tokens of their own.
    Each token goes to the devices of its experts and back in one all-to-all each, forward and
    backward (Lepikhin et al. 2020, GShard). Column leaves partial sums of the output, which are
    weighted and added up per token before they are reduced, and of the gradients of the inputs.
    Gradients of an expert's weights come from all tokens of a row group at once. Kept are the
    tokens in their experts' order, what the activation reads and makes, and the experts' outputs,
    which the gradients of the router's weights need.
    """
    x, *routing = graph.inputs_of(operator)
    (y,) = graph.outputs_of(operator)
    require_dimensions(operator, "inputs", 0, x, 2)
    require_shape(operator, "outputs", 0, y.shape, x.shape, "the tokens")
    weights = _checked_weights(operator, x)
    chosen = experts_per_token(operator, "inputs", 1, routing, x.shape[:-1], weights.experts)
    copies = chosen * (x.elements // x.shape[-1])
    matrices = 3 if weights.gated else 2
    product = 2 * copies * matrices * x.shape[-1] * weights.features
    of_tokens = Split(data=0, row=0)
    per_token, sent = Roles(data=True, row=True), copies * x.shape[-1]
    exchange = tuple(
        Collective("all_to_all", phase, "row", sent * DTYPE_BYTES[x.dtype], Roles(data=True))
        for phase in ("forward", "forward", "backward", "backward")
    )
    rule = Rule(
        units=(x.shape[0], weights.experts, weights.features),
        limited_by=("batch", "experts", "features of an expert"),
        inputs=(
            InputRule(of_tokens, partial_gradient=Roles(column=True)),
            *(
                InputRule(of_tokens, Roles(column=tensor.has_gradient), saved=True)
                for tensor in routing
            ),
        ),
        outputs=(OutputRule(of_tokens, partial=Roles(column=True)),),
        parameters=tuple(
            ParameterRule(_parameter_split(weights, number, len(parameter.shape)))
            for number, parameter in enumerate(operator.parameters)
        ),
        extras=(
            Extra(sent, x.dtype, per_token),
            Extra(copies * matrices * weights.features, x.dtype, ALL_ROLES),
            Extra(sent, x.dtype, per_token),
        ),
        collectives=exchange,
        counts_input_copies=True,
        flops=product,
        backward_flops=2 * product,
        joint_units=(JointUnits(Roles(data=True, row=True), x.shape[0], "batch"),),
    )
    if options.sequence_parallel and has_sequence(x.shape):
        return rule, _sequence_parallel(rule, x, y)
    return (rule,)


def _sequence_parallel(rule: Rule, x: Tensor, y: Tensor) -> Rule:
    """Row splits the sequence instead of the batch, and so does column the tokens.

    Tokens are gathered over column before they go to their experts and the output is scattered,
    in place of the all-reduces (Korthikanti et al. 2022, section 4.2.2). The router's choice is
    small and stays whole over column.
    """
    tokens = Split(data=0, row=SEQUENCE, column=SEQUENCE)
    choice = Split(data=0, row=SEQUENCE)
    split = Roles(data=True, row=True)
    return replace(
        rule,
        inputs=(InputRule(tokens), *(replace(own, split=choice) for own in rule.inputs[1:])),
        outputs=(OutputRule(tokens),),
        collectives=(
            Collective("all_gather", "forward", "column", x.size_bytes, split),
            Collective("reduce_scatter", "forward", "column", y.size_bytes, split),
            Collective("all_gather", "backward", "column", y.size_bytes, split),
            Collective("reduce_scatter", "backward", "column", x.size_bytes, split),
            *rule.collectives,
        ),
        suffix=SEQUENCE_PARALLEL,
        joint_units=(JointUnits(Roles(row=True, column=True), x.shape[SEQUENCE], "sequence"),),
    )


def _parameter_split(weights: _Weights, number: int, dimensions: int) -> Split:
    """Column splits what the first weights lead to and the last one leads from; the last bias is
    added once, to the sum."""
    if number < weights.down:
        return Split(row=0, column=dimensions - 1)
    return Split(row=0, column=1 if number == weights.down else None)


def _checked_weights(operator: Operator, x: Tensor) -> _Weights:
    parameters = operator.parameters
    places = [number for number, own in enumerate(parameters) if len(own.shape) == 3]
    require(
        len(places) in (2, 3) and places[0] == 0,
        path_of(operator, "parameters"),
        f"hold {len(places)} weights of all experts.",
        "Give [experts, in, out] two times, or three times where gate and up are apart, each with "
        "or without a bias [experts, out] behind it.",
    )
    *first, down = places
    experts, features = parameters[down].shape[:2]
    require_experts(operator, experts)
    pairs = len(first) == 1 and parameters[0].shape[2] == 2 * features
    gated = flag_attribute(operator, "gated", len(first) == 2 or pairs)
    require(
        gated or len(first) == 1,
        path_of(operator, "attributes", "gated"),
        f"is false, but {len(first)} weights lead into the experts.",
        "Give one of them, or make it true.",
    )
    fits = f"tokens {list(x.shape)} and {'gated ' if gated else ''}experts of {features} features"
    width = (2 if gated else 1) * features // len(first)
    wanted = {down: (experts, features, x.shape[-1])}
    wanted |= dict.fromkeys(first, (experts, x.shape[-1], width))
    for number, shape in wanted.items():
        require_shape(operator, "parameters", number, parameters[number].shape, shape, fits)
    for number, parameter in enumerate(parameters):
        if number in places:
            continue
        require(
            number - 1 in places,
            path_of(operator, "parameters", number),
            f"the bias {list(parameter.shape)} does not come behind a weight.",
            "Give each weight followed by its bias.",
        )
        shape_of_bias = (experts, parameters[number - 1].shape[-1])
        require_shape(operator, "parameters", number, parameter.shape, shape_of_bias, fits)
    return _Weights(experts, features, gated, down)


KIND = Kind(
    "experts",
    make_rules,
    frozenset({"experts", "experts_per_token", "gated", "activation"}),
    inputs=(2, 3),
    parameters=(2, 6),
)
