"""Predicted time of one optimizer step under a plan, by the roofline of the devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.cost import times as rates
from planner.cost.degrees import Degrees
from planner.cost.memory import ceil_div
from planner.cost.parameters import Shard
from planner.sharding.build import Formulation
from planner.sharding.costs import OperatorCosts
from planner.sharding.graph import Operator
from planner.sharding.instance import totals
from planner.sharding.strategies import Strategy

BACKWARD_PASSES = 2
"""A backward reads and writes about what two forwards do: once for the gradient of the input and
once for that of the parameters."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one device in one optimizer step; nothing is taken to overlap."""

    compute_s: float
    communication_s: float
    optimizer_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.communication_s + self.optimizer_s


def step_time(timed: Formulation, choice: Sequence[int], precision: str) -> StepTime:
    """Compute, collectives and resharding, and the optimizer.

    `timed` has its communication in time, as bytes on the fastest link. An operator takes its
    FLOPs at the reachable rate or its bytes at that of device memory, whichever is longer. Latency
    of collectives is left out. ZeRO shares the optimizer's work among the data devices of each
    operator.
    """
    settings = timed.settings
    cluster = settings.devices.cluster
    sent = totals(timed.instance(1.0, None), choice)
    compute_s = optimizer_s = 0.0
    for number, operator in enumerate(timed.graph.operators):
        strategy = timed.strategies[number][choice[number]]
        compute_s += timed.times[number] * operator_s(timed, operator, strategy, precision)
        optimizer_s += timed.times[number] * rates.optimizer_s(
            Shard(_parameters_on_device(operator, strategy, borrowed=False)),
            settings.states,
            settings.zero_stage,
            Degrees(pipeline=1, tensor=1, data=strategy.degrees.data),
            cluster,
        )
    return StepTime(
        compute_s=settings.micro_batches * compute_s,
        communication_s=(sent.communication_bytes + sent.resharding_bytes)
        / cluster.link_bytes_per_s,
        optimizer_s=optimizer_s,
    )


def operator_s(timed: Formulation, operator: Operator, strategy: Strategy, precision: str) -> float:
    """Forward and backward of one operator for one micro-batch on one device."""
    return forward_s(timed, operator, strategy, precision) + backward_s(
        timed, operator, strategy, precision
    )


def forward_s(timed: Formulation, operator: Operator, strategy: Strategy, precision: str) -> float:
    """Forward of one operator for one micro-batch on one device."""
    return _roofline_s(timed, operator, strategy, precision, strategy.rule.flops, 1)


def backward_s(timed: Formulation, operator: Operator, strategy: Strategy, precision: str) -> float:
    """Backward of one operator for one micro-batch on one device."""
    flops = strategy.rule.backward_flops
    return _roofline_s(timed, operator, strategy, precision, flops, BACKWARD_PASSES)


def _roofline_s(
    timed: Formulation,
    operator: Operator,
    strategy: Strategy,
    precision: str,
    flops: int,
    passes: int,
) -> float:
    if operator.kind == "input":
        return 0.0
    cluster = timed.settings.devices.cluster
    shared = 1
    for degree, divides in zip(strategy.degrees, strategy.rule.divides_work, strict=True):
        shared *= degree if divides else 1
    moved = passes * _touched_bytes(timed, operator, strategy)
    compute_s = rates.compute_s(flops // shared, cluster, precision)
    return max(compute_s, rates.moved_s(moved, cluster))


def _touched_bytes(timed: Formulation, operator: Operator, strategy: Strategy) -> int:
    """What one forward reads and writes; views touch nothing."""
    rule, graph = strategy.rule, timed.graph
    if all(output.is_view for output in rule.outputs):
        return 0
    activations = [
        *zip(graph.inputs_of(operator), (own.split for own in rule.inputs), strict=True),
        *zip(graph.outputs_of(operator), (own.split for own in rule.outputs), strict=True),
    ]
    size = sum(ceil_div(t.size_bytes, strategy.blocks(s)) for t, s in activations)
    weights = _parameters_on_device(operator, strategy, borrowed=True)
    return size + weights * timed.settings.states.parameter


def _parameters_on_device(operator: Operator, strategy: Strategy, *, borrowed: bool) -> int:
    """Its own parameters, and those of other operators that it uses if `borrowed`."""
    return sum(
        ceil_div(parameter.elements, strategy.blocks(rule.split))
        for parameter, rule in zip(operator.parameters, strategy.rule.parameters, strict=True)
        if borrowed or parameter.tied_to is None
    )


def kept_bytes(timed: Formulation, number: int, strategy: Strategy) -> int:
    """Activations that one operator keeps for the backward on a device, for one micro-batch."""
    operator = timed.graph.operators[number]
    costs = OperatorCosts(operator, timed.graph.tensors, timed.saved, timed.settings)
    return sum(costs.kept_activations(strategy).values()) + costs.extra_bytes(strategy)
