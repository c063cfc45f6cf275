"""Operators of a kind that is not known."""

from __future__ import annotations

from planner.sharding.graph import Graph, Operator, Tensor
from planner.sharding.operators.rule import (
    NO_ROLE,
    WHOLE,
    InputRule,
    OutputRule,
    ParameterRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)


def make_rules(operator: Operator, graph: Graph, _options: RuleOptions) -> tuple[Rule, ...]:
    """Data splits the batch, row and column leave everything whole.

    The batch is the first dimension of the first output; tensors that do not begin with it stay
    whole, and come out as partial sums over data, or the gradients of those that are read. Where
    nothing begins with a batch, everything is repeated. All that the operator reads and makes is
    taken to be kept for the backward.
    """
    inputs, outputs = graph.inputs_of(operator), graph.outputs_of(operator)
    batch = outputs[0].shape[0] if outputs and outputs[0].shape else None

    def split(tensor: Tensor) -> Split:
        return Split(data=0) if tensor.shape[:1] == (batch,) else WHOLE

    def summed(tensor: Tensor) -> Roles:
        return Roles(data=batch is not None and split(tensor) == WHOLE)

    return (
        Rule(
            units=(batch, None, None),
            limited_by=("batch", "copies", "copies"),
            inputs=tuple(
                InputRule(
                    split(tensor),
                    partial_gradient=summed(tensor) if tensor.has_gradient else NO_ROLE,
                    saved=True,
                )
                for tensor in inputs
            ),
            outputs=tuple(
                OutputRule(split(tensor), partial=summed(tensor), saved=True) for tensor in outputs
            ),
            parameters=(ParameterRule(WHOLE, Roles(data=batch is not None)),)
            * len(operator.parameters),
            divides_work=Roles(data=True),
            warnings=(
                f"The kind {operator.kind!r} is not known: it is split along the batch or "
                "repeated, all that it reads and makes counts as kept for the backward, and its "
                "FLOPs are not counted.",
            ),
        ),
    )
