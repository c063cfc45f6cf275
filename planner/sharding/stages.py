"""Pipeline stages: which layers each of several equal groups of devices gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.errors import SpecError
from planner.sharding.devices import DeviceGroup
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph, Operator, Repeat


@dataclass(frozen=True, slots=True)
class StageGraph:
    """One stage: its part of the graph, and how many micro-batches' activations it holds."""

    number: int
    graph: Graph
    layers: int
    micro_batches_in_flight: int


def stage_group(devices: DeviceGroup, stages: int) -> DeviceGroup:
    """The devices of one of equal stages, which are neighbours."""
    return replace(devices, count=devices.count // stages)


def check_stages(graph: Graph, stages: int) -> None:
    """Raises `SpecError` where a graph cannot be divided into so many stages."""
    if stages == 1:
        return
    if graph.repeat is None:
        raise SpecError(
            ("stages",),
            "needs a graph of repeated layers.",
            "Post a `transformer` with `layers`, or a graph with `repeat`.",
        )
    if stages > graph.repeat.count:
        raise SpecError(
            ("stages",),
            f"is more than the {graph.repeat.count} layers.",
            "Ask for fewer stages or more `layers`.",
        )


def divide(graph: Graph, layers: Sequence[int], micro_batches: int) -> tuple[StageGraph, ...]:
    """The graph of each stage.

    What lies before the layers goes to the first stage and what lies behind them to the last; a
    parameter tied across stages is held by both, as Megatron-LM does.
    """
    if len(layers) == 1:
        return (StageGraph(0, graph, layers[0], 1),)
    stages = len(layers)
    return tuple(
        StageGraph(
            stage,
            part_of(graph, count, first=stage == 0, last=stage == stages - 1),
            count,
            in_flight(stage, stages, micro_batches),
        )
        for stage, count in enumerate(layers)
    )


def in_flight(stage: int, stages: int, micro_batches: int) -> int:
    """Micro-batches whose activations a stage holds: under 1F1B stage s of P holds P - s
    (Narayanan et al. 2021, section 2.2)."""
    return min(micro_batches, stages - stage)


def part_of(graph: Graph, count: int, *, first: bool, last: bool) -> Graph:
    """The graph of a stage with so many of the layers; what arrives from the stage before is an
    input of its own."""
    repeat = graph.repeat
    assert repeat is not None
    layer = layer_operators(graph)
    before = _needed_by(graph, layer) - layer
    kept = [
        operator
        for number, operator in enumerate(graph.operators)
        if number in layer or (first if number in before else last)
    ]
    made = {tensor for operator in kept for tensor in operator.outputs}
    wanted = dict.fromkeys(t for operator in kept for t in operator.inputs if t not in made)
    names = {operator.name for operator in kept}
    arriving = [Operator(f"{t} (arrives)", "input", (), (t,)) for t in wanted]
    operators = (*arriving, *(_untied(operator, names) for operator in kept))
    used = {t for operator in operators for t in (*operator.inputs, *operator.outputs)}
    return Graph(
        operators,
        {name: tensor for name, tensor in graph.tensors.items() if name in used},
        Repeat(count, repeat.input, repeat.output),
    )


def _needed_by(graph: Graph, numbers: frozenset[int]) -> set[int]:
    """The operators that some operators need, directly or through others, and these themselves."""
    needed = set(numbers)
    for number in reversed(range(len(graph.operators))):
        if number in needed:
            needed.update(graph.producer_of[t] for t in graph.operators[number].inputs)
    return needed


def _untied(operator: Operator, names: set[str]) -> Operator:
    return replace(
        operator,
        parameters=tuple(
            parameter if parameter.tied_to in names else replace(parameter, tied_to=None)
            for parameter in operator.parameters
        ),
    )
