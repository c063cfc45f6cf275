"""From a graph and a group of devices to the instance that is solved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.sharding.choices import Allowed, everything, graph_choices
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost
from planner.sharding.layout import Layout
from planner.sharding.moves import moves
from planner.sharding.operators.rule import Rule, RuleOptions, Split
from planner.sharding.strategies import Strategy

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Passage:
    """A tensor (or a tied parameter, `tensor` is then its name) on its way between operators.

    `table[i][j]`: bytes that a device receives in one optimizer step from strategy i of the source
    to strategy j of the target, forward and backward. `times` says how often the passage occurs
    where layers are folded. A layer that reads its own output has source and target the same.
    """

    tensor: str
    source: int
    target: int
    table: Table
    times: int


@dataclass(frozen=True)
class Formulation:
    """Everything about a graph on a group of devices: strategies, costs and passages.

    `times[v]` says how many operators the folded operator v stands for.
    """

    graph: Graph
    settings: CostSettings
    saved: frozenset[str]
    strategies: tuple[tuple[Strategy, ...], ...]
    costs: tuple[tuple[StrategyCost, ...], ...]
    passages: tuple[Passage, ...]
    times: tuple[int, ...]
    warnings: tuple[str, ...]

    def instance(self, alpha: float, device_memory_bytes: int | None) -> Instance:
        """The instance for one weight of communication; folded layers count as often as they are.

        Parallel passages between two operators become one edge, and passages within one operator
        part of its own communication.
        """
        tables: dict[tuple[int, int], Table] = {}
        own: dict[int, Table] = {}
        for passage in self.passages:
            table = passage.times * passage.table
            if passage.source == passage.target:
                own[passage.source] = own.get(passage.source, 0) + np.diagonal(table)
            else:
                key = passage.source, passage.target
                tables[key] = tables[key] + table if key in tables else table
        return Instance(
            operators=tuple(
                OperatorChoice(operator.name, self._weighted(number, own.get(number)))
                for number, operator in enumerate(self.graph.operators)
            ),
            edges=tuple(
                Edge(source, target, tuple(map(tuple, table.tolist())))
                for (source, target), table in tables.items()
            ),
            alpha=alpha,
            device_memory_bytes=device_memory_bytes,
        )

    def _weighted(self, number: int, resharded: Table | None) -> tuple[StrategyCost, ...]:
        times = self.times[number]
        extra = [0] * len(self.costs[number]) if resharded is None else resharded.tolist()
        return tuple(
            replace(
                cost,
                redundant_bytes=times * cost.redundant_bytes,
                communication_bytes=times * cost.communication_bytes + more,
                memory_bytes=times * cost.memory_bytes,
            )
            for cost, more in zip(self.costs[number], extra, strict=True)
        )


def formulate(
    graph: Graph,
    settings: CostSettings,
    options: RuleOptions,
    allowed: Allowed = everything,
    *,
    with_passages: bool = True,
) -> Formulation:
    """Strategies of every operator with their costs, and what every passage costs.

    `allowed` leaves out strategies; at least one per operator has to stay. Without passages only
    memory and redundancy are right. Raises `SpecError` where an operator's shapes make no sense.
    """
    choices = graph_choices(graph, options, settings.devices.count, allowed)
    folded = layer_operators(graph)
    saved = saved_tensors(graph, choices.rules, folded)
    strategies = choices.strategies
    count = graph.repeat.count if graph.repeat else 1
    models = [OperatorCosts(each, graph.tensors, saved, settings) for each in graph.operators]
    return Formulation(
        graph=graph,
        settings=settings,
        saved=saved,
        strategies=strategies,
        costs=tuple(
            tuple(map(model.of, own)) for model, own in zip(models, strategies, strict=True)
        ),
        passages=tuple(_Passages(graph, settings, strategies, folded, models).all())
        if with_passages
        else (),
        times=tuple(count if v in folded else 1 for v in range(len(graph.operators))),
        warnings=choices.warnings,
    )


def saved_tensors(graph: Graph, rules: Sequence[Rule], folded: frozenset[int]) -> frozenset[str]:
    """The tensors that someone keeps for the backward; who keeps a view keeps what it shows.

    A repeated layer's output counts as kept where the next layer keeps it, the last layer's too.
    `folded` are the operators of the layer.
    """
    repeat = graph.repeat if graph.repeat and graph.repeat.count > 1 else None

    def read(number: int, tensor: str) -> tuple[str, ...]:
        is_passed_on = repeat and number in folded and tensor == repeat.input
        return (tensor, repeat.output) if repeat and is_passed_on else (tensor,)

    saved: set[str] = set()
    shown: dict[str, tuple[str, ...]] = {}
    for number, (operator, rule) in enumerate(zip(graph.operators, rules, strict=True)):
        for tensor, own in zip(operator.inputs, rule.inputs, strict=True):
            if own.saved:
                saved.update(read(number, tensor))
        for tensor, output in zip(operator.outputs, rule.outputs, strict=True):
            if output.saved:
                saved.add(tensor)
            if output.is_view:
                shown[tensor] = read(number, operator.inputs[0])
    # Views at a layer's start show the output of the one before, which may be a view itself.
    for view in (*reversed(shown), *reversed(shown)):
        if view in saved:
            saved.update(shown[view])
    return frozenset(saved)


class _Passages:
    """Makes the passages of a graph."""

    def __init__(
        self,
        graph: Graph,
        settings: CostSettings,
        strategies: Sequence[Sequence[Strategy]],
        folded: frozenset[int],
        models: Sequence[OperatorCosts],
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._strategies = strategies
        self._folded = folded
        self._models = models

    def all(self) -> Iterator[Passage]:
        """Every tensor to each of its readers, and every tied parameter to who borrows it."""
        repeat = self._graph.repeat
        for number, operator in enumerate(self._graph.operators):
            layers = repeat.count if repeat and number in self._folded else 1
            for place, tensor in enumerate(operator.inputs):
                if repeat is None or tensor != repeat.input or layers == 1:
                    yield from self._tensor(tensor, number, place, layers)
                    continue
                yield from self._tensor(tensor, number, place, 1)
                yield from self._tensor(repeat.output, number, place, layers - 1)
            for place, parameter in enumerate(operator.parameters):
                if parameter.tied_to is not None:
                    holder = self._graph.number_of[parameter.tied_to]
                    table = self._tied(holder, number, place)
                    yield Passage(parameter.name, holder, number, table, layers)

    def _tensor(self, name: str, target: int, place: int, times: int) -> Iterator[Passage]:
        """The passage to one place of a reader; what lies right for one place that reads the same
        tensor does so for another one."""
        tensor, source = self._graph.tensors[name], self._graph.producer_of[name]
        out = self._graph.operators[source].outputs.index(name)
        made = [s.layout(s.rule.outputs[out].split) for s in self._strategies[source]]
        wanted = self._wanted(target, place)
        back_bytes = tensor.size_bytes if tensor.has_gradient else 0
        table = self._table(made, wanted, tensor.size_bytes, back_bytes)
        inputs = self._graph.operators[target].inputs
        again = [at for at in range(place) if inputs[at] == inputs[place]]
        for at in again:
            pairs = zip(self._wanted(target, at), wanted, strict=True)
            table[:, [a.effective == b.effective for a, b in pairs]] = 0
        if table.any() or not again:
            yield Passage(name, source, target, self._settings.micro_batches * table, times)

    def _wanted(self, target: int, place: int) -> list[Layout]:
        return [s.layout(s.rule.inputs[place].split) for s in self._strategies[target]]

    def _tied(self, holder: int, number: int, place: int) -> Table:
        """What a borrowed parameter costs in one step, its gradient on the way back.

        Where it lies otherwise than its holder's, the borrower adds up its gradient by itself.
        """
        parameter = self._graph.operators[number].parameters[place]
        position, held = next(
            (position, own)
            for position, own in enumerate(self._graph.operators[holder].parameters)
            if own.tied_to is None and sorted(own.shape) == sorted(parameter.shape)
        )
        made = [s.layout(s.rule.parameters[position].split) for s in self._strategies[holder]]
        wanted = [
            s.layout(_as_held(s.rule.parameters[place].split, parameter.shape, held.shape))
            for s in self._strategies[number]
        ]
        states = self._settings.states
        weight, gradient = (
            parameter.elements * size for size in (states.parameter, states.gradient)
        )
        table = self._table(made, wanted, weight, gradient)
        model = self._models[number]
        alone = [model.borrowed_gradient(s, place) for s in self._strategies[number]]
        return table + np.where(table > 0, np.array(alone), 0)

    def _table(
        self,
        made: Sequence[Layout],
        wanted: Sequence[Layout],
        size_bytes: int,
        back_bytes: int,
    ) -> Table:
        """Bytes from each layout to each other, and back where there is a gradient."""
        sources, targets = tuple(dict.fromkeys(made)), tuple(dict.fromkeys(wanted))
        devices = self._settings.devices
        per_node, factor = devices.count, 1.0
        if self._settings.communication == "time" and devices.devices_per_node < per_node:
            per_node, factor = devices.devices_per_node, devices.network_factor
        there, back = moves(sources, targets, per_node, factor)
        table = there.bytes_of(size_bytes, factor)
        if back_bytes:
            table = table + back.bytes_of(back_bytes, factor)
        rows = {layout: number for number, layout in enumerate(sources)}
        columns = {layout: number for number, layout in enumerate(targets)}
        picked: Table = table[
            np.ix_([rows[layout] for layout in made], [columns[layout] for layout in wanted])
        ]
        return picked


def _as_held(split: Split, shape: tuple[int, ...], held: tuple[int, ...]) -> Split:
    """The split of a parameter, by the dimensions of the one that holds it, which may come in
    another order."""
    if shape == held:
        return split
    left = list(enumerate(held))
    places = []
    for size in shape:
        place = next(pair for pair in left if pair[1] == size)
        left.remove(place)
        places.append(place[0])
    return Split(*(None if dimension is None else places[dimension] for dimension in split))
