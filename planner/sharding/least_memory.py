"""The least memory of all plans: a sum over operators that no edge has a part in, so each operator
may be split as suits it best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.sharding.build import Formulation
from planner.sharding.costs import OperatorCosts
from planner.sharding.strategies import Strategy

Counted = Callable[[int, OperatorCosts, Strategy], tuple[int, int]]
"""Of an operator's number, costs and strategy: bytes of states and of activations on a device."""


@dataclass(frozen=True, slots=True)
class Least:
    """The least bytes that one device has to hold of an operator, or of all of them (`name` is
    then the one that takes most)."""

    name: str
    states_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both together."""
        return self.states_bytes + self.activation_bytes


def least_memory(formulation: Formulation, counted: Counted | None = None) -> Least:
    """No plan keeps less than the least of each operator. `counted` may count other bytes."""
    rows = least_of_operators(formulation, counted)
    return Least(
        name=max(rows, key=lambda row: row.total_bytes).name,
        states_bytes=sum(row.states_bytes for row in rows),
        activation_bytes=sum(row.activation_bytes for row in rows),
    )


def least_of_operators(formulation: Formulation, counted: Counted | None = None) -> list[Least]:
    """Each operator split so that a device holds least of it, all its layers together."""
    rows = []
    for number, operator in enumerate(formulation.graph.operators):
        model = costs_of(formulation, number)
        held = [
            (counted or _kept(formulation))(number, model, strategy)
            for strategy in formulation.strategies[number]
        ]
        rows.append(Least(operator.name, *min(held, key=sum)))
    return rows


def costs_of(formulation: Formulation, number: int) -> OperatorCosts:
    """The costs of one operator's strategies."""
    graph = formulation.graph
    return OperatorCosts(
        graph.operators[number], graph.tensors, formulation.saved, formulation.settings
    )


def states_bytes(model: OperatorCosts, strategy: Strategy) -> int:
    """Parameters, gradients and optimizer states on a device."""
    return sum(holding.resident_bytes for holding in model.states(strategy))


def activation_bytes(model: OperatorCosts, strategy: Strategy) -> int:
    """What is kept on a device of one micro-batch's forward."""
    return sum(model.kept_activations(strategy).values()) + model.extra_bytes(strategy)


def _kept(formulation: Formulation) -> Counted:
    in_flight = formulation.settings.micro_batches_in_flight

    def counted(number: int, model: OperatorCosts, strategy: Strategy) -> tuple[int, int]:
        times = formulation.times[number]
        kept = in_flight * activation_bytes(model, strategy)
        return times * states_bytes(model, strategy), times * kept

    return counted


def checkpointed(formulation: Formulation) -> Counted:
    """What is kept where each layer keeps its input only, for each micro-batch in flight, and one
    layer all of its own while its backward runs (Chen et al. 2016). A graph without layers counts
    as one."""
    graph = formulation.graph
    in_flight = formulation.settings.micro_batches_in_flight
    repeat = graph.repeat
    layer = {v for v, times in enumerate(formulation.times) if times > 1}
    ends: Sequence[str] = ()
    if repeat is not None and repeat.count > 1:
        ends = (repeat.input, repeat.output)
    else:
        layer = {v for v, own in enumerate(graph.operators) if own.kind != "input"}

    def counted(number: int, model: OperatorCosts, strategy: Strategy) -> tuple[int, int]:
        times = formulation.times[number]
        kept = 0
        own = model.kept_activations(strategy)
        operator = graph.operators[number]
        for tensor, rule in zip(operator.outputs, strategy.rule.outputs, strict=True):
            if tensor in ends and not rule.is_view:
                blocks = strategy.layout(rule.split).blocks
                size = -(-graph.tensors[tensor].size_bytes // blocks)
                kept += times * in_flight * size
            elif tensor in own:
                kept += own[tensor] * (1 if number in layer else in_flight)
        extra = model.extra_bytes(strategy) * (1 if number in layer else in_flight)
        return times * states_bytes(model, strategy), kept + extra

    return counted
